"""What the page renderers share: jinja2 with every value escaped, and the run list."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lightning_bench.reports.report import Report
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.text import numbers, verdicts

TEMPLATES = Path(__file__).parent / "templates"


def render(
    template: str,
    escape: Callable[[str], str] | None,
    report: Report,
    runs: Sequence[ReportedRun],
    delimiters: dict[str, str] | None = None,
    **more: Any,
) -> str:
    """Fill a template in; whatever it prints is escaped, unless it is Markup already.

    Without an `escape` jinja2's own does it, for HTML. Otherwise `finalize` does the format's, so
    jinja2's finds nothing left to do; it stays on for what might pass by.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=partial(_finalize, escape) if escape else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(delimiters or {}),  # type: ignore[arg-type]
    )
    return environment.get_template(template).render(
        report=report,
        samples=by_sample(report, runs),
        f=numbers,
        also=verdicts.also,
        tiers=verdicts.ALSO if any(map(verdicts.also, report.comparisons)) else "",
        **more,
    )


def _finalize(escape: Callable[[str], str], value: Any) -> Any:
    return value if isinstance(value, Markup) else Markup(escape(str(value)))


def by_sample(
    report: Report, runs: Sequence[ReportedRun]
) -> list[tuple[str, str, list[ReportedRun]]]:
    """(data set, entry, its runs by seed) in the order of the main table."""
    order = {row.label: place for place, row in enumerate(report.tables[0].measured)}
    datasets = {c.dataset: place for place, c in enumerate(report.tables[0].columns)}

    def place(run: ReportedRun) -> tuple[int, int, str]:
        return datasets[run.dataset], order[run.entry], run.varied

    ordered = sorted(runs, key=lambda run: (*place(run), run.seed, run.key))
    grouped = [list(found) for _, found in groupby(ordered, key=place)]
    return [(found[0].dataset, found[0].title, found) for found in grouped]
