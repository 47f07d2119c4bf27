"""A report as Markdown that GitHub renders."""

import re
from collections.abc import Sequence

from markupsafe import Markup

from lightning_bench.reports.render import page_templates
from lightning_bench.reports.report import Cell, Column, Report, Table
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.text.numbers import heading, parts

SPACE = "\u00a0"  # one that does not break the line
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~&$#])")
_LIST = re.compile(r"^(\d*)([-+.)])(?=\s|$)")


def escape(text: str) -> str:
    """Any text as literal text on one line, also inside a table's cell."""
    if text.isalnum():  # as thousands of keys and seeds are
        return text
    text = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    # At the start of a line these would begin a list.
    return _LIST.sub(r"\1\\\2", text)


def render(report: Report, runs: Sequence[ReportedRun]) -> str:
    """The page as text."""
    return page_templates.render("report.md.j2", escape, report, runs, cell=_cell)


def tables(found: Sequence[Table]) -> str:
    """Tables alone."""
    lines: list[str] = []
    for table in found:
        heads = [
            "<br>".join(filter(None, (escape(column.title), escape(heading(column)))))
            for column in table.columns
        ]
        lines += [f"## {escape(table.title)}", "", f"| | {' | '.join(heads)} |"]
        lines.append(f"| :-- |{' --: |' * len(heads)}")
        for row in table.rows:
            label = escape(f"{row.label} ({row.group})" if row.group else row.label)
            cells = [_cell(*pair) for pair in zip(row.cells, table.columns, strict=True)]
            lines.append(f"| {label} | {' | '.join(cells)} |")
        lines += ["", escape(table.caption), ""]
        marks = (f"<sup>{note.mark}</sup> " if note.mark else "" for note in table.notes)
        lines += [f"- {m}{escape(n.text)}" for m, n in zip(marks, table.notes, strict=True)]
        lines.append("")
    return "\n".join(lines)


def _cell(cell: Cell, column: Column) -> Markup:
    value, half = (escape(part) for part in parts(cell, column))
    if cell.value is None and cell.state:
        value = f"*{value}*"
    text = f"**{value}**" if cell.best else value
    text += f"{SPACE}±{SPACE}{half}" if half else ""
    text += f"<sup>{','.join(cell.notes)}</sup>" if cell.notes else ""
    return Markup(text)
