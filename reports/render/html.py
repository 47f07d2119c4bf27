"""A report as one HTML file that needs no network: sortable, with a page a run, light and dark."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from markupsafe import Markup, escape

from lightning_bench.bench.store.record import Example
from lightning_bench.reports.figures.colours import INK, PAPER
from lightning_bench.reports.render import page_templates, plot_numbers, run_pages
from lightning_bench.reports.report import Cell, Column, Report, Row, Table
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.text.numbers import parts, thinned

# All pictures of examples together take no more than this.
PICTURE_BYTES = 500_000


def render(report: Report, runs: Sequence[ReportedRun]) -> str:
    """The page as text, without its figures, which may be drawn meanwhile."""
    samples = page_templates.by_sample(report, runs)
    anchors = {run.key: f"runs-{i}" for i, (_, _, found) in enumerate(samples) for run in found}
    metrics = list(dict.fromkeys(c.metric for c in report.tables[0].columns if c.metric))
    return page_templates.render(
        "report.html.j2",
        None,
        report,
        runs,
        cell=_cell,
        groups=_groups,
        shade=_shade,
        anchors=anchors,
        metrics=metrics,
        columns={(c.dataset, c.metric): c for c in report.tables[0].columns},
        placeholder=_placeholder,
        spark=_spark if len(runs) <= run_pages.DRAWN_RUNS else None,
        run_data=run_pages.data([run for _, _, found in samples for run in found]),
        sheets=_sheets(report),
        plot_heads=plot_numbers.heads,
        plot_rows=plot_numbers.rows,
        style=_asset("report.css"),
        script=_asset("report.js"),
    )


def illustrate(page: str, report: Report, drawings: Mapping[str, str]) -> str:
    """The page with its figures; `drawings` are their SVG by name."""
    parts, rest = [], page
    for figure in report.figures:  # they stand in this order
        before, _, rest = rest.partition(_placeholder(figure.name))
        parts += [before, inline(drawings[figure.name], figure.alt, figure.name)]
    return "".join([*parts, rest])


def _placeholder(figure: str) -> Markup:
    """A comment where a figure goes; all text of others is escaped, and holds no such thing."""
    return Markup(f"<!-- figure {figure} -->")


def _groups(table: Table) -> list[tuple[str, list[Row]]]:
    return [(name, list(rows)) for name, rows in groupby(table.rows, key=lambda row: row.group)]


def _shade(share: float) -> Markup:
    """The attribute that gives a cell of a matrix its colour."""
    return Markup('style="--share: {:.2f}"').format(share)


def _asset(name: str) -> Markup:
    return Markup((page_templates.TEMPLATES / name).read_text(encoding="utf-8"))


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


def _spark(run: ReportedRun, metric: str) -> Markup:
    """The run's validation curve as a small line."""
    curve = run.record.curve if run.record else []
    values = [point.metrics.get(metric, math.nan) for point in curve]
    points = thinned([value for value in values if math.isfinite(value)], 30)
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
