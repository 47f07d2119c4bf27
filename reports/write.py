"""Write a report's files: each is made beside its place and renamed into it."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, get_args

from reports.table import Report, Run

Format = Literal["md", "tex", "html", "csv", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)


def write(
    report: Report, runs: Sequence[Run], folder: Path, formats: Collection[Format] = FORMATS
) -> list[Path]:
    """Write report.md, .tex, .html, .csv, .json and figures/; return the paths.

    Figures are drawn when a page that shows them is asked for. report.json comes last: where it
    holds the right `inputs`, the other files asked for with it are there too.
    """
    written = []
    drawings: dict[str, str] = {}
    if report.figures and {"md", "tex", "html"} & set(formats):
        from reports import figures

        for path, content in figures.files(report, runs):
            written.append(_place(folder / "figures" / path, content))
            if path.endswith(".svg"):
                drawings[path.removesuffix(".svg")] = content.decode()
    for name in (name for name in FORMATS if name in formats):
        text = _text(name, report, runs, drawings)
        written.append(_place(folder / f"report.{name}", text.encode()))
    return written


def _text(name: Format, report: Report, runs: Sequence[Run], drawings: dict[str, str]) -> str:
    # Imported as needed: JSON alone shall not cost jinja2.
    if name == "json":
        return report.model_dump_json(indent=1)
    if name == "csv":
        from reports import tidy

        return tidy.render(report, runs)
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
