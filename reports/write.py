"""Write a report's files: each is made beside its place and renamed into it."""

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, get_args

from reports.table import Report, Run

Format = Literal["md", "tex", "html", "csv", "parquet", "schema.json", "json"]
#: The files of figures that each page needs; PNG is for trackers and slides, with all the rest.
_DRAWN = {"md": {"svg"}, "html": {"svg"}, "tex": {"pdf"}}
#: What a report has when nobody chooses; the schema is the same for every report.
FORMATS: tuple[Format, ...] = ("md", "tex", "html", "csv", "parquet", "json")


def write(
    report: Report, runs: Sequence[Run], folder: Path, formats: Collection[Format] = FORMATS
) -> list[Path]:
    """Write report.md, .tex, .html, .csv, .parquet, .json and figures/; return the paths.

    Figures are drawn for the pages asked for that show them. report.json comes last: where it
    holds the right `inputs`, the other files asked for with it are there too.
    """
    written = []
    drawings: dict[str, str] = {}
    kinds = set().union(*(_DRAWN.get(name, set()) for name in formats))
    if report.figures and kinds:
        from reports import figures

        if _DRAWN.keys() <= set(formats):
            kinds.add("png")
        for path, content in figures.files(report, runs, sorted(kinds)):
            written.append(_place(folder / "figures" / path, content))
            if path.endswith(".svg"):
                drawings[path.removesuffix(".svg")] = content.decode()
    for name in (name for name in get_args(Format) if name in formats):
        made = _content(name, report, runs, drawings)
        whole = made if isinstance(made, bytes) else made.encode()
        written.append(_place(folder / f"report.{name}", whole))
    return written


def _content(
    name: Format, report: Report, runs: Sequence[Run], drawings: dict[str, str]
) -> str | bytes:
    # Imported as needed: JSON alone shall not cost jinja2.
    if name == "schema.json":
        return json.dumps(Report.model_json_schema(), indent=1)
    if name == "json":
        return report.model_dump_json(indent=1)
    if name in ("csv", "parquet"):
        from reports import tidy

        return tidy.render(report, runs) if name == "csv" else tidy.parquet(report, runs)
    if name == "tex":
        from reports import latex

        return latex.render(report, runs)
    if name == "md":
        from reports import markdown

        return markdown.render(report, runs)
    from reports import html

    return html.render(report, runs, drawings)


def _place(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
