"""Build a report from a request and its runs: pure, no I/O, no torch."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from lightning_bench.reports import inputs_digest
from lightning_bench.reports.figures import captions
from lightning_bench.reports.figures.figure_data import FigureData
from lightning_bench.reports.report import Report, State
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import per_example, ranking, samples, tuning_effort
from lightning_bench.reports.tables import (
    across_data_sets,
    convergence,
    cost,
    failed_attempts,
    published_rows,
    results,
    scaling,
    speed,
    tuning,
)
from lightning_bench.reports.text import findings, provenance_lines, tuning_lines

STATES: tuple[State, ...] = ("done", "running", "missing", "stale", "failed", "pruned")


def build(
    request: Request,
    runs: Sequence[ReportedRun],
    predictions: Mapping[str, per_example.Predictions] | None = None,
    drawable: Callable[[FigureData], None] | None = None,
) -> Report:
    """The report on these runs. The main table depends on metrics and parameter counts alone.

    `predictions` are the per-example results by key that could be read; None if nobody tried.
    `drawable` is called as soon as it is known what is to be drawn, before the rest is worked out.
    """
    collected = samples.collect(request, runs)
    rankings = ranking.rank(request, collected)
    everywhere = across_data_sets.table(request, collected)
    main = results.table(request, collected, rankings)
    figures = captions.captions(request, collected, everywhere)
    searches = tuning_effort.search_lines(request)
    if drawable:
        known = (table for table in (main, everywhere) if table)
        drawable(FigureData.of(known, searches, figures))
    compared = per_example.compare(request, collected, predictions or {})
    counts = Counter(run.state for run in runs)
    tables = [
        main,
        published_rows.table(request, main),
        everywhere,
        convergence.table(request, collected),
        cost.table(request, collected),
        *tuning.tables(request),
        scaling.of_counts(request),
        *(speed.tables(request.measured) if request.measured else []),
    ]
    return Report(
        inputs=inputs_digest.inputs(request, runs),
        study=request.study.name,
        scale=request.study.scale,
        title=request.study.title,
        question=request.study.question,
        command=request.study.command,
        runs={state: counts[state] for state in STATES if counts[state]},
        findings=[
            *tuning_lines.findings(request),
            *findings.findings(request, collected, rankings),
            *findings.on_examples(main, compared),
            *findings.unreadable(runs, predictions),
        ],
        tables=[table for table in tables if table and table.rows],
        comparisons=rankings.comparisons,
        look=rankings.look if runs else None,
        examples=compared,
        lost=failed_attempts.lost(request, runs),
        searches=searches,
        figures=figures,
        facts=provenance_lines.facts(request, runs),
        sheets=request.sheets,
    )
