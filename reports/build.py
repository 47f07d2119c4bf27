"""Build a report from a request and its runs: pure, no I/O, no torch."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from lightning_bench.reports import inputs_digest
from lightning_bench.reports.figures import captions
from lightning_bench.reports.figures.asked import captions as asked_captions
from lightning_bench.reports.figures.asked.content import Arrays
from lightning_bench.reports.figures.figure_data import FigureData
from lightning_bench.reports.report import Fact, Report, State
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import (
    errors,
    per_example,
    ranking,
    samples,
    tuning_effort,
    variance,
)
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.tiers.evidence import tiers
from lightning_bench.reports.statistics.tiers.new_examples import new_examples
from lightning_bench.reports.tables import (
    across_data_sets,
    convergence,
    cost,
    failed_attempts,
    new_examples_marks,
    printed_costs,
    published_rows,
    results,
    scaling,
    speed,
    tuning,
)
from lightning_bench.reports.tables import variance as variances
from lightning_bench.reports.text import findings, provenance_lines, tier_lines, tuning_lines

STATES: tuple[State, ...] = ("done", "running", "missing", "stale", "failed", "pruned")


#: Bins of nobody's reliability diagram.
NO_BINS: Mapping[str, Floats] = {}
#: What nobody's probes kept.
NO_ARRAYS: Arrays = {}


def build(
    request: Request,
    runs: Sequence[ReportedRun],
    predictions: Mapping[str, per_example.Predictions] | None = None,
    drawable: Callable[[FigureData], None] | None = None,
    reliability: Mapping[str, Floats] | None = NO_BINS,
    arrays: Arrays = NO_ARRAYS,
) -> Report:
    """The report on these runs. The main table depends on metrics and parameter counts alone.

    `predictions` are the per-example results by key that could be read; None if nobody tried.
    `reliability` are the bins of the runs' reliability diagrams by key, as far as they are known;
    None where they were too many to be read, which the report says. `arrays` are what runs' probes
    kept for figures, by key.
    `drawable` is called as soon as it is known what is to be drawn, before the rest is worked out.
    """
    collected = samples.collect(request, runs)
    rankings = ranking.rank(request, collected)
    everywhere = across_data_sets.tables(request, collected)
    main = results.table(request, collected, rankings)
    evidence = tiers(request, collected, rankings)
    comparisons = evidence.annotated(rankings.comparisons)
    shown = [main, *everywhere]
    figures = captions.captions(request, collected, shown, comparisons, reliability or {})
    spreads = variance.spreads(request, collected, runs)
    figures += captions.of_variance(request, spreads)
    asked, not_drawn = asked_captions.figures(request, collected, main, arrays)
    figures = [*asked, *figures]
    searches = tuning_effort.search_lines(request)
    if drawable:
        drawable(FigureData.of([main, *everywhere], searches, figures, comparisons))
    compared = per_example.compare(request, collected, predictions or {})
    anew = new_examples(rankings, compared)
    comparisons = anew.annotated(comparisons)
    counts = Counter(run.state for run in runs)
    tables = [
        new_examples_marks.marked(main, comparisons),
        variances.table(request, spreads, runs),
        published_rows.table(request, main),
        printed_costs.table(request, collected),
        *everywhere,
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
            *variances.findings(request, spreads),
            *tier_lines.findings(request, rankings, evidence, anew),
            *findings.on_examples(main, compared),
            *findings.unreadable(runs, predictions),
        ],
        tables=[table for table in tables if table and table.rows],
        comparisons=comparisons,
        look=rankings.look if runs else None,
        examples=compared,
        errors=errors.errors(request, collected, predictions or {}),
        lost=failed_attempts.lost(request, runs),
        searches=searches,
        figures=figures,
        facts=[*provenance_lines.facts(request, runs), *_untold(request, reliability), *not_drawn],
        sheets=request.sheets,
    )


def _untold(request: Request, reliability: Mapping[str, Floats] | None) -> list[Fact]:
    """What the report leaves out since it would take long to read."""
    if reliability is not None or not request.classes:
        return []
    return [Fact(label="Reliability", text="of so many runs no diagrams are drawn")]
