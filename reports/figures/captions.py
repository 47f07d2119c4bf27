"""Which figures a report has, and their captions; `draw` draws them."""

from collections.abc import Iterator

from lightning_bench.reports.report import Figure, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import tuning_effort
from lightning_bench.reports.statistics.samples import Samples
from lightning_bench.reports.tables import across_data_sets, depth_scaling, speed
from lightning_bench.reports.text.numbers import slug

#: Entries whose colours and markers can be told apart; of more than that the others are grey.
FEW = 12


def captions(request: Request, samples: Samples, everywhere: Table | None) -> list[Figure]:
    """What these runs can show: curves and sizes by data set, and all data sets at once."""
    figures: list[Figure] = []
    for number, (dataset, (metric, *_)) in enumerate(request.metrics.items()):
        name, shown = slug(dataset), metric.replace("_", " ")
        if any(figure.name.endswith(f"-{name}") for figure in figures):
            name = f"{name}-{number}"  # a/b and a-b have one slug
        samples_here = [samples[entry, dataset] for entry in request.entries]
        if any(len(record.curve) > 1 for sample in samples_here for record in sample.done.values()):
            figures.append(
                Figure(
                    name=f"curves-{name}",
                    kind="curves",
                    dataset=dataset,
                    title=f"Learning curves, {dataset}",
                    caption=(
                        f"Validation {shown} by epoch: mean over seeds; the band spans all seeds."
                        " A start far off the rest is left out."
                    ),
                    alt=f"Lines of validation {shown} against epoch, one for each entry.",
                )
            )
        if sum(bool(sample.values(metric)) for sample in samples_here) > 1:
            figures.append(
                Figure(
                    name=f"size-{name}",
                    kind="size",
                    dataset=dataset,
                    title=f"{shown.capitalize()} against parameters, {dataset}",
                    caption=(
                        f"Test {shown}: mean and 95 % t-interval over seeds. Dotted, where there"
                        " is one: the front of means that no smaller entry reaches, not a claim."
                    ),
                    alt=f"Points of test {shown} against parameter count, one for each entry.",
                )
            )
        figures += _growth(request, name, dataset, samples)
        figures += _speeds(request, name, dataset)
        figures += _searches(request, dataset, name, shown)
    if everywhere:
        figures += _over_all(request, everywhere)
    if len(request.entries) <= FEW:
        return figures
    few = f" The {FEW} best of {len(request.entries)} entries are told apart; the others are grey."
    return [
        figure.model_copy(update={"caption": figure.caption + few})
        if figure.kind in ("curves", "size", "profile", "throughput")
        else figure
        for figure in figures
    ]


def _speeds(request: Request, name: str, dataset: str) -> Iterator[Figure]:
    """The metric against throughput, where the models were measured."""
    if request.measured is None:
        return
    shown, found = (
        request.metrics[dataset][0].replace("_", " "),
        speed.inference(request, dataset),
    )
    if len(found) > 1:
        yield Figure(
            name=f"throughput-{name}",
            kind="throughput",
            dataset=dataset,
            title=f"{shown.capitalize()} against throughput, {dataset}",
            caption=(
                f"Test {shown}: mean and 95 % t-interval over seeds; throughput of inference:"
                " median of the blocks and its 95 % interval. Ringed: the Pareto front of medians"
                " and means, which no other entry beats in both; not a claim."
            ),
            alt=f"Points of test {shown} against throughput, the Pareto front ringed.",
            x=speed.unit(request),
            speeds=found,
        )


def _growth(request: Request, name: str, dataset: str, samples: Samples) -> Iterator[Figure]:
    """Lines through the entries of a family, over depth and over size."""
    metric = request.metrics[dataset][0]
    shown = metric.replace("_", " ")
    here = {entry: samples[entry, dataset] for entry in request.entries}
    entries = [entry for entry, sample in here.items() if sample.values(metric)]
    counts = {
        label: float(record.cost.parameters)
        for label, sample in here.items()
        for record in sample.done.values()
        if record.cost
    }
    found = {
        "depth": depth_scaling.by_depth(request, entries),
        "parameters": depth_scaling.by_size(request, entries, counts),
    }
    for x, lines in found.items():
        if lines:
            yield Figure(
                name=f"{x}-{name}",
                kind="growth",
                dataset=dataset,
                title=f"{'Depth' if x == 'depth' else 'Size'} scaling, {dataset}",
                caption=(
                    f"Test {shown}: mean and 95 % t-interval over seeds. A line joins models of"
                    f" one family that differ in {'depth' if x == 'depth' else 'size'} alone."
                ),
                alt=f"Lines of test {shown} against {x}, one for each family of models.",
                x=x,
                lines=lines,
            )


def _searches(request: Request, dataset: str, name: str, shown: str) -> list[Figure]:
    """What the searches on a data set did; figures of the validation split, and no results."""
    here = [ledger for ledger in request.searches if ledger.dataset == dataset]
    if not any(ledger.best for ledger in here):
        return []
    figures = [
        Figure(
            name=f"best-{name}",
            kind="best",
            dataset=dataset,
            title=f"Best so far, {dataset}",
            caption=(
                f"Best validation {shown} by trial; pruned and failed trials count as trials. The"
                " first trial has the recipe's own values."
            ),
            alt=f"Steps of the best validation {shown} against trials, one for each entry.",
        )
    ]
    if not any(tuning_effort.no_expectation(ledger) for ledger in here):
        figures.append(
            Figure(
                name=f"expected-{name}",
                kind="expected",
                dataset=dataset,
                title=f"Expected validation performance, {dataset}",
                caption=(
                    f"Expected best validation {shown} of n random trials, estimated without bias"
                    " from all that were drawn; a failed trial counts as the worst."
                ),
                alt=f"Lines of expected best validation {shown} against n, one for each entry.",
            )
        )
    if any(ledger.front() for ledger in here):
        figures.append(
            Figure(
                name=f"front-{name}",
                kind="front",
                dataset=dataset,
                title=f"Validation against cost, {dataset}",
                caption="Finished trials, pale, and the front of those that none beats in both.",
                alt=f"Points of validation {shown} against cost, with a step line of the front.",
            )
        )
    return figures


def _over_all(request: Request, everywhere: Table) -> list[Figure]:
    shown = (everywhere.columns[0].metric or "").replace("_", " ")
    figures = [
        Figure(
            name="profile",
            kind="profile",
            title="Performance profile",
            caption=f"Share of all runs, over all data sets, with a test {shown} at least as good.",
            alt=f"Falling lines: share of runs that reach a test {shown}, one for each entry.",
        )
    ]
    ranked = sum(row.cells[1].value is not None for row in everywhere.rows)
    datasets = len(request.metrics)
    if datasets >= across_data_sets.RANKED_FROM and ranked > 2:
        distance = across_data_sets.critical_difference(ranked, datasets)
        figures.append(
            Figure(
                name="ranks",
                kind="ranks",
                title="Mean ranks",
                caption=(
                    f"Mean rank over {datasets} data sets; 1 is best. A bar joins entries that are"
                    f" less than the critical difference {distance:.2f} apart (Nemenyi, 0.05)."
                ),
                alt="A scale of ranks with one mark for each entry, and bars that join ties.",
            )
        )
    return figures
