"""`bench check`: are a study's records within the rules that make its table honest?"""

from typing import TYPE_CHECKING, Any

from lightning_bench.bench.cli.options import (
    DEFAULT_STORE,
    OutputFormat,
    Scale,
    Settings,
    StoreFolder,
    StudyName,
    echo_json,
    make_plan,
    open_study,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightning_bench.bench.plan.check_rules import MetricOf, Printed
    from lightning_bench.bench.study.study import Study

BROKEN = 3


def check_command(
    name: StudyName,
    scale: Scale = None,
    settings: Settings = None,
    store: StoreFolder = DEFAULT_STORE,
    output: OutputFormat = "table",
) -> int:
    """Check a study's records against the rules that make its table honest; for CI."""
    study, opened = open_study(name, scale, settings, store)
    from lightning_bench.bench.plan import check_rules
    from lightning_bench.bench.plan.check_rules import RULES_VERSION

    more = [
        check_rules.plausible(_printed(study)),
        check_rules.verified(_metrics_of()),
        check_rules.known(opened.read_environment),
    ]
    results = check_rules.check(make_plan(study, opened), more)
    broken = sum(bool(breaches) for _, breaches in results)
    if output == "json":
        echo_json(
            {
                "name": rule.name,
                "since": rule.since,
                "demands": rule.demands,
                "kept": not breaches,
                "breaches": breaches,
            }
            for rule, breaches in results
        )
        return BROKEN if broken else 0
    from lightning_bench.bench.cli.console import Console, styled

    console = Console()
    for rule, breaches in results:
        state, colour = ("broken", "red") if breaches else ("kept  ", "green")
        line = styled(state, colour, f"  {rule.name}: {rule.demands}")
        console.print(line, soft_wrap=True)
        for breach in breaches[:5]:
            console.print(f"        {breach}", soft_wrap=True)
        if len(breaches) > 5:
            console.print(f"        and {len(breaches) - 5} more (--format json has all)")
    verdict = f"{broken} of {len(results)} rules are broken" if broken else "all rules are kept"
    console.print(f"\n{study.name} ({study.scale}), rules {RULES_VERSION}: {verdict}")
    return BROKEN if broken else 0


def _metrics_of() -> "MetricOf":
    """A function that gives a metric of a split by what was kept of its examples.

    It remembers those of classes, which are computed all at once, for the split of its last call.
    """
    from lightning_bench.bench.study.class_metrics import CLASS_METRICS
    from lightning_bench.models.tasks import probability_scores
    from lightning_bench.reports.statistics import per_example

    last: Mapping[str, Any] | None = None
    scores: dict[str, float] = {}

    def metric_of(metric: str, predictions: "Mapping[str, Any]") -> float | None:
        nonlocal last, scores
        if metric not in CLASS_METRICS:
            return per_example.metric_of(metric, predictions)
        if predictions is not last:
            last, scores = predictions, probability_scores.scores(predictions)
        return scores.get(metric)

    return metric_of


def _printed(study: "Study") -> "list[Printed]":
    """What is printed of each entry: in the row it reproduces, else the best in the column."""
    from lightning_bench.bench.plan.check_rules import Printed
    from lightning_bench.bench.study import ranking
    from lightning_bench.reports.request import PERCENT
    from lightning_bench.reports.tables import published_pages

    rows = published_pages.for_study(study)
    directions = ranking.directions(study)
    printed = []
    for name, dataset in study.datasets.items():
        for metric in dataset.metrics:
            higher = directions.get(metric, True)
            scale = 100.0 if metric in PERCENT else 1.0
            here = [
                (cell.value / scale, row)
                for row in rows
                if (cell := row.cells.get(f"{name}/{metric}")) and cell.value is not None
            ]
            for label, entry in study.entries.items():
                own = [pair for pair in here if pair[1].label == entry.published]
                if known := own or here:
                    best = max if higher else min
                    value, row = best(known, key=lambda pair: pair[0])
                    printed.append(Printed(label, name, metric, value, higher, row.cite))
    return printed
