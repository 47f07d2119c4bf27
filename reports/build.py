"""Build a report from a request and its runs: pure, no I/O, no torch."""

from collections import Counter
from collections.abc import Sequence

from reports import costs, digest, facts, findings, ranking, results, samples
from reports.table import Figure, Report, Request, Run, State
from reports.text import slug

STATES: tuple[State, ...] = ("done", "running", "missing", "stale", "failed")


def build(request: Request, runs: Sequence[Run]) -> Report:
    """The report on these runs. The main table depends on metrics and parameter counts alone."""
    collected = samples.collect(request, runs)
    rankings = ranking.rank(request, collected)
    counts = Counter(run.state for run in runs)
    tables = [results.table(request, collected, rankings), costs.table(request, collected)]
    return Report(
        inputs=digest.inputs(request, runs),
        study=request.study,
        scale=request.scale,
        title=request.title,
        question=request.question,
        command=request.command,
        runs={state: counts[state] for state in STATES if counts[state]},
        findings=findings.findings(request, collected, rankings),
        tables=[table for table in tables if table.rows],
        comparisons=rankings.comparisons,
        figures=_figures(request, collected),
        facts=facts.facts(request, runs),
    )


def _figures(request: Request, collected: samples.Samples) -> list[Figure]:
    """What can be drawn from these runs; `reports.figures` draws it."""
    found = []
    for dataset, (metric, *_) in request.metrics.items():
        name, shown = slug(dataset), metric.replace("_", " ")
        here = [collected[entry.label, dataset] for entry in request.entries]
        if any(len(record.curve) > 1 for sample in here for record in sample.done.values()):
            found.append(
                Figure(
                    name=f"curves-{name}",
                    kind="curves",
                    dataset=dataset,
                    title=f"Learning curves, {dataset}",
                    caption=(
                        f"Validation {shown} by epoch: mean over seeds; the band spans all seeds."
                    ),
                    alt=f"Lines of validation {shown} against epoch, one for each entry.",
                )
            )
        if sum(bool(sample.values(metric)) for sample in here) > 1:
            found.append(
                Figure(
                    name=f"size-{name}",
                    kind="size",
                    dataset=dataset,
                    title=f"{shown.capitalize()} against parameters, {dataset}",
                    caption=(
                        f"Test {shown}: mean and 95 % t-interval over seeds. The front leads through"
                        " means that no smaller entry reaches; it claims nothing."
                    ),
                    alt=f"Points of test {shown} against parameter count, one for each entry.",
                )
            )
    return found
