"""Build a report from a request and its runs: pure, no I/O, no torch."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from lightning_bench.reports import (
    across,
    against,
    attempts,
    captions,
    convergence,
    costs,
    digest,
    examples,
    facts,
    findings,
    measured,
    ranking,
    results,
    samples,
    scaling,
    search,
)
from lightning_bench.reports.sketch import Sketch
from lightning_bench.reports.table import Report, Request, Run, State

STATES: tuple[State, ...] = ("done", "running", "missing", "stale", "failed", "pruned")


def build(
    request: Request,
    runs: Sequence[Run],
    predictions: Mapping[str, examples.Predictions] | None = None,
    drawable: Callable[[Sketch], None] | None = None,
) -> Report:
    """The report on these runs. The main table depends on metrics and parameter counts alone.

    `predictions` are the per-example results by key that could be read; None if nobody tried.
    `drawable` is called as soon as it is known what is to be drawn, before the rest is worked out.
    """
    collected = samples.collect(request, runs)
    rankings = ranking.rank(request, collected)
    everywhere = across.table(request, collected)
    main = results.table(request, collected, rankings)
    figures = captions.captions(request, collected, everywhere)
    searches = search.lines(request)
    if drawable:
        found = (table for table in (main, everywhere) if table)
        drawable(Sketch.of(found, searches, figures))
    compared = examples.compare(request, collected, predictions or {})
    counts = Counter(run.state for run in runs)
    tables = [
        main,
        against.table(request, main),
        everywhere,
        convergence.table(request, collected),
        costs.table(request, collected),
        *search.tables(request),
        scaling.of_counts(request),
        *(measured.tables(request.measured) if request.measured else []),
    ]
    return Report(
        inputs=digest.inputs(request, runs),
        study=request.study,
        scale=request.scale,
        title=request.title,
        question=request.question,
        command=request.command,
        runs={state: counts[state] for state in STATES if counts[state]},
        findings=[
            *search.findings(request),
            *findings.findings(request, collected, rankings),
            *findings.on_examples(main, compared),
            *findings.unreadable(runs, predictions),
        ],
        tables=[table for table in tables if table and table.rows],
        comparisons=rankings.comparisons,
        examples=compared,
        lost=attempts.lost(request, runs),
        searches=searches,
        figures=figures,
        facts=facts.facts(request, runs),
        sheets=request.sheets,
    )
