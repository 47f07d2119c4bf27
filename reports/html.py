"""A report as one HTML file that needs no network: sortable, linked to its runs, light and dark."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from markupsafe import Markup, escape

from bench.record import Example
from reports import pages
from reports.figures import INK, PAPER
from reports.table import Cell, Column, Report, Row, Run, Table
from reports.text import parts

# Beyond this many runs the page leaves out each run's own curve, to stay small.
DRAWN_RUNS = 1000
# All pictures of examples together take no more than this.
PICTURE_BYTES = 700_000


def render(report: Report, runs: Sequence[Run], drawings: Mapping[str, str]) -> str:
    """The page as text; `drawings` are the figures' SVG by name."""
    anchors = {run.key: f"runs-{i}" for i, run in _first_runs(report, runs)}
    metrics = list(dict.fromkeys(c.metric for c in report.tables[0].columns if c.metric))
    return pages.render(
        "report.html.j2",
        lambda text: str(escape(text)),
        report,
        runs,
        cell=_cell,
        groups=_groups,
        anchors=anchors,
        metrics=metrics,
        columns={(c.dataset, c.metric): c for c in report.tables[0].columns},
        figures={
            figure.name: inline(drawings[figure.name], figure.alt, figure.name)
            for figure in report.figures
        },
        spark=_spark if len(runs) <= DRAWN_RUNS else lambda run, metric: "",
        origin=_origin,
        sheets=_sheets(report),
        style=_asset("report.css"),
        script=_asset("report.js"),
    )


def _first_runs(report: Report, runs: Sequence[Run]) -> list[tuple[int, Run]]:
    """A number for each run: that of its entry and data set."""
    return [
        (number, run)
        for number, (_, _, found) in enumerate(pages.by_sample(report, runs))
        for run in found
    ]


def _groups(table: Table) -> list[tuple[str, list[Row]]]:
    return [(name, list(rows)) for name, rows in groupby(table.rows, key=lambda row: row.group)]


def _asset(name: str) -> Markup:
    return Markup((pages.TEMPLATES / name).read_text(encoding="utf-8"))


def _cell(cell: Cell, column: Column) -> Markup:
    value, half = parts(cell, column)
    shown = Markup('<span class="state">{}</span>').format(value) if cell.state else escape(value)
    if cell.best:
        shown = Markup("<strong>{}</strong>").format(shown)
    if half:
        shown += Markup(' <span class="pm">± {}</span>').format(half)
    return shown


def inline(svg: str, alt: str, name: str) -> Markup:
    """An SVG file as an element of the page: in the page's ink, named, its ids its own."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    svg = svg.replace(INK, "currentColor").replace(f"fill: {PAPER}", "fill: none")
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1))


def _spark(run: Run, metric: str) -> Markup:
    """The run's validation curve as a small line."""
    points = (
        [p.metrics[metric] for p in run.record.curve if metric in p.metrics] if run.record else []
    )
    if len(points) < 2:
        return Markup("")
    low, high = min(points), max(points)
    span = (high - low) or 1.0
    step = 60 / (len(points) - 1)
    line = " ".join(
        f"{i * step:.0f},{15 - 14 * (p - low) / span:.0f}" for i, p in enumerate(points)
    )
    return Markup(
        '<svg class="spark" viewBox="-1 -1 62 18" aria-hidden="true"><polyline points="{}"/></svg>'
    ).format(line)


def _sheets(report: Report) -> list[tuple[str, str, list[Example]]]:
    """Each data set's name, a caption and its examples, fewer where there are many data sets."""
    sheets = []
    for name, examples in report.sheets.items():
        left, shown = PICTURE_BYTES // len(report.sheets), []
        for example in examples.shown:
            left -= len(example.picture)
            if left < 0:
                break
            shown.append(example)
        caption = "From the training split"
        if any(example.picture for example in shown) and len(shown) < examples.classes:
            caption += f"; {len(shown)} of {examples.classes:,} classes"
        sheets.append((name, f"{caption}.", shown))
    return sheets


def _origin(run: Run) -> Markup:
    """The run's folder; behind it, what the record knows of it."""
    name = Markup("<code>{}</code>").format(run.folder or run.key)
    if not (record := run.record):
        return name
    spec, command = record.spec, record.provenance.command
    facts = {
        "Key": f"{record.key}, attempt {record.attempt}",
        "Model": " ".join([spec.model.name, *(f"{k}={v}" for k, v in spec.model.args.items())]),
        "Time": f"{record.started} to {record.ended}",
        # Without the folders of the machine it ran on.
        "Command": " ".join([Path(word).name for word in command[:1]] + command[1:]),
        "Device": f"{record.provenance.devices} × {record.provenance.device}",
        "Metrics": ", ".join(f"{k} {v:.6g}" for k, v in sorted(record.metrics.items())),
        "Scored": f"{record.scored:,} test examples" if record.scored else "",
        "Data": record.data.fingerprint[:12] if record.data else "",
    }
    lines = [Markup("<dt>{}</dt><dd>{}</dd>").format(*fact) for fact in facts.items() if fact[1]]
    return Markup("<details><summary>{}</summary><dl>{}</dl></details>").format(
        name, Markup("").join(lines)
    )
