"""The figures that the documents print, one YAML page a table in `reports/published/`.

They are transcribed, never computed; `audit` notes say where a printed value can't be right.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study.study import Study
from lightning_bench.common.messages import nearest
from lightning_bench.reports.request import PrintedValue, PublishedRow

FOLDER = Path(__file__).parents[1] / "published"
# Printed units that are not those of a column: parameters are counts here, millions in print.
FACTORS = {"params_m": 1e6}


@dataclass(frozen=True)
class PrintedRow:
    """A printed line: its values by column, as they stand in print; no label stands twice."""

    label: str
    group: str
    values: dict[str, str]


@dataclass(frozen=True)
class PrintedTable:
    """One table of a document."""

    source: str
    title: str
    columns: list[str]
    rows: list[PrintedRow]
    audit: dict[str, str] = field(default_factory=dict)

    def remark(self, label: str, column: str) -> str:
        """What the audit says of a cell, or of its whole column."""
        return self.audit.get(f"{label} {column}", self.audit.get(column, ""))


def names() -> list[str]:
    """The tables there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@cache
def load(name: str) -> PrintedTable:
    """A table of ours by its name."""
    return load_page(FOLDER / f"{name}.yaml")


def load_page(path: Path) -> PrintedTable:
    """A table from a page of this kind, anybody's; a ValueError says what is wrong with it."""
    import yaml

    try:
        page = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path.name}: {' '.join(str(error).split())}") from None
    lacking = {"source", "columns"} - set(page if isinstance(page, Mapping) else ())
    if lacking or not page.keys() & {"rows", "groups"}:
        raise ValueError(f"{path.name}: a printed table has source, columns, and rows or groups")
    columns = [str(column) for column in page["columns"]]
    groups = page.get("groups", {"": page.get("rows")})
    rows = [
        PrintedRow(str(label), group, _values(path.stem, columns, values))
        for group, lines in groups.items()
        for label, values in _lines(lines)
    ]
    rows = [_told_apart(row, rows, columns[0]) for row in rows]
    audit = {key: " ".join(text.split()) for key, text in page.get("audit", {}).items()}
    return PrintedTable(page["source"], page.get("title", path.stem), columns, rows, audit)


def _told_apart(row: PrintedRow, rows: list[PrintedRow], first: str) -> PrintedRow:
    """The row with its group (or first value) in its label, where the print has it twice."""
    same = [other for other in rows if other.label == row.label]
    if len(same) == 1:
        return row
    if len({other.group for other in same}) == len(same):
        return replace(row, label=f"{row.label}, {row.group[0].lower()}{row.group[1:]}")
    return replace(row, label=f"{row.label}, {row.values[first]} {first}")


def _lines(lines: Any) -> list[tuple[str, list[Any]]]:
    """Rows by label; where a label occurs twice, the page has lists that begin with it."""
    if isinstance(lines, Mapping):
        return list(lines.items())
    return [(label, values) for label, *values in lines]


def _values(name: str, columns: list[str], values: list[Any]) -> dict[str, str]:
    if len(values) != len(columns):
        raise ValueError(f"{name}.yaml: {len(values)} values for {len(columns)} columns: {values}")
    return {c: str(v) for c, v in zip(columns, values, strict=True) if v is not None}


def read(text: str, factor: float = 1.0) -> PrintedValue:
    """A printed value: `97.7`, `99.50 ± 0.06`, or something else that stays text (`88.4/88.5`)."""
    found = re.fullmatch(r"([\d.]+)(?: ± ([\d.]+))?", text)
    if not found:
        return PrintedValue(text=text)
    value, spread = found.groups()
    return PrintedValue(
        text=text,
        value=float(value) * factor,
        spread=None if spread is None else float(spread) * factor,
    )


def rows(name: str, columns: Mapping[str, str]) -> list[PublishedRow]:
    """Rows of a table of ours to stand beside a report's: see `beside`."""
    return beside(load(name), name, columns)


def beside(table: PrintedTable, name: str, columns: Mapping[str, str]) -> list[PublishedRow]:
    """Rows to stand beside ours: `columns` maps printed columns to a report's column ids.

    A report's column ids are `<data set>/<metric>` and `parameters`. Beside results, rows that
    print nothing but `parameters` are left out.
    """
    unknown = columns.keys() - set(table.columns)
    if unknown:
        raise ValueError(
            f"{name}: no printed column {sorted(unknown)[0]!r}; it has {table.columns}"
        )
    results = [printed for printed, ours in columns.items() if ours != "parameters"]
    return [
        PublishedRow(
            label=row.label,
            group=row.group,
            cite=table.source,
            cells={
                ours: read(row.values[printed], FACTORS.get(printed, 1.0))
                for printed, ours in columns.items()
                if printed in row.values
            },
            remarks={
                ours: remark
                for printed, ours in columns.items()
                if printed in row.values and (remark := table.remark(row.label, printed))
            },
        )
        for row in table.rows
        if any(printed in row.values for printed in results or columns)
    ]


def for_study(study: Study, against: str | None = None) -> list[PublishedRow]:
    """The printed rows that the page wants beside ours; `against` may want none, or a page's too.

    A page of one's own names its columns as the report does, `digits/accuracy` or `parameters`.
    """
    if against == "none":
        return []
    wanted: list[PublishedRow] = []
    try:
        for table, columns in study.published.items():
            if table not in names():
                raise UserError(f"unknown printed table {table!r}{nearest(table, names())}")
            wanted += rows(table, columns)
    except ValueError as error:
        raise UserError(f"{study.name}: {error}") from None
    if against == "published" and not wanted:
        raise UserError(f"{study.name} names no printed table; --against PATH reads one of yours")
    return wanted if against in (None, "published") else [*wanted, *_own(study, Path(against))]


def _own(study: Study, path: Path) -> list[PublishedRow]:
    """The rows of a page of the user's."""
    try:
        table = load_page(path)
    except OSError as error:
        raise UserError(
            f"--against {path}: {error.strerror}; it takes published, none, or a page"
        ) from None
    except ValueError as error:
        raise UserError(f"--against {error}") from None
    ids = [f"{name}/{metric}" for name, d in study.datasets.items() for metric in d.metrics]
    known = {column: column for column in table.columns if column in [*ids, "parameters"]}
    if not known.keys() - {"parameters"}:
        raise UserError(f"--against {path}: no column is one of {', '.join(ids)}")
    return beside(table, path.stem, known)
