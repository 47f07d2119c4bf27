"""Write a report's files: each is made beside its place and renamed into it."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from lightning_bench.common.files import set_aside, write_atomically
from lightning_bench.reports.render import csv_and_parquet
from lightning_bench.reports.report import Report
from lightning_bench.reports.request import ReportedRun

Format = Literal["md", "tex", "html", "csv", "parquet", "schema.json", "png", "json"]
#: The kind of figures that a format needs, or is.
_DRAWN = {"md": "svg", "html": "svg", "tex": "pdf", "png": "png"}
#: What a report has when nobody chooses; PNG is for trackers and slides, and the schema is the same
#: for every report.
FORMATS: tuple[Format, ...] = ("md", "tex", "html", "csv", "parquet", "json")
#: What a tracker is sent.
TRACKED: tuple[Format, ...] = (*FORMATS, "png")


def paths(report: Report, formats: Collection[Format]) -> list[Path]:
    """All files of a report in these formats, from its folder on."""
    figures = [
        Path("figures", f"{figure.name}.{kind}")
        for figure in report.figures
        for kind in kinds_of_figures(formats)
    ]
    return figures + [Path(f"report.{name}") for name in _documents(formats)]


def write(
    report: Report,
    runs: Sequence[ReportedRun],
    folder: Path,
    formats: Collection[Format] = FORMATS,
    show: Callable[[Report], None] = lambda report: None,
    drawn: Iterator[tuple[str, bytes]] | None = None,
) -> list[Path]:
    """Write the files of these formats; return their paths.

    `drawn` are the figures' files, of the `kinds_of_figures` of these formats; they are drawn here
    where nobody has begun to. The report is shown while other processes draw. report.json comes
    last: where it holds the right `inputs`, the others that were asked for with it are there too.
    """
    kinds = kinds_of_figures(formats)
    if drawn is None and kinds:
        from lightning_bench.reports.figures import drawing_process, figure_data

        drawn = drawing_process.files(figure_data.of_report(report), runs, kinds)
    show(report)
    rows = csv_and_parquet.rows(report, runs) if {"csv", "parquet"} & {*formats} else []
    made = {name: _content(name, report, runs, rows) for name in _documents(formats)}
    drawings = dict(drawn or ())
    for path, figure in drawings.items():
        _place(folder / "figures" / path, figure)
    if isinstance(page := made.get("html"), str):
        made["html"] = _illustrate(page, report, drawings)
    for name, content in made.items():
        _place(folder / f"report.{name}", content)
    return [folder / path for path in paths(report, formats)]


def kinds_of_figures(formats: Collection[Format]) -> list[str]:
    """What figures are files of."""
    return sorted({_DRAWN[name] for name in formats if name in _DRAWN})


def _documents(formats: Collection[Format]) -> list[Format]:
    return [name for name in get_args(Format) if name in formats and name != "png"]


def _content(
    name: Format, report: Report, runs: Sequence[ReportedRun], rows: Sequence[csv_and_parquet.Row]
) -> str | bytes:
    # Imported as needed: JSON alone shall not cost jinja2.
    if name == "schema.json":
        return json.dumps(Report.model_json_schema(), indent=1)
    if name == "json":
        return report.model_dump_json(indent=1)
    if name == "csv":
        return csv_and_parquet.csv_text(rows)
    if name == "parquet":
        return csv_and_parquet.parquet(report, rows)
    if name == "tex":
        from lightning_bench.reports.render import latex

        return latex.render(report, runs)
    if name == "md":
        from lightning_bench.reports.render import markdown

        return markdown.render(report, runs)
    from lightning_bench.reports.render import html

    return html.render(report, runs)


def _illustrate(page: str, report: Report, drawings: Mapping[str, bytes]) -> str:
    from lightning_bench.reports.render import html

    inside = {figure.name: drawings[f"{figure.name}.svg"].decode() for figure in report.figures}
    return html.illustrate(page, report, inside)


def _place(path: Path, content: str | bytes) -> None:
    if path.is_dir():
        set_aside(path)
    if path.parent.is_symlink() or path.parent.is_file():
        set_aside(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content, durable=False)
