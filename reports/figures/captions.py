"""Which figures a report has, and their captions; `draw` draws them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightning_bench.bench.store.record import Record
from lightning_bench.reports.figures import differences
from lightning_bench.reports.report import Comparison, Figure, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference, tuning_effort
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.samples import Sample, Samples
from lightning_bench.reports.statistics.variance import Spreads
from lightning_bench.reports.tables import across_data_sets, depth_scaling, speed
from lightning_bench.reports.text.numbers import slug

#: Entries whose colours and markers can be told apart; of more than that the others are grey.
FEW = 12


def captions(
    request: Request,
    samples: Samples,
    tables: Sequence[Table],
    comparisons: Sequence[Comparison],
    reliability: Mapping[str, Floats] | None = None,
) -> list[Figure]:
    """What these runs can show: differences first, curves and sizes by data set, and all at once.

    `tables` are the main one and, where there is one, that across data sets.
    """
    names: dict[str, str] = {}
    for dataset in request.metrics:
        names[dataset] = differences.name_of(dataset, [*names.values()])
    figures = list(differences.figures(request, tables[0], comparisons, names))
    for dataset, name in names.items():
        here = {entry: samples[entry, dataset] for entry in request.entries}
        figures += _DataSet(request, dataset, name, here, reliability or {}).figures()
    for table in tables:
        if table.id == "across":
            figures += _over_all(request, samples, table)
    if len(request.entries) <= FEW:
        return figures
    few = f" The {FEW} best of {len(request.entries)} entries are told apart; the others are grey."
    return [
        figure.model_copy(update={"caption": figure.caption + few})
        if figure.kind in ("curves", "size", "profile", "throughput")
        else figure
        for figure in figures
    ]


@dataclass(frozen=True)
class _DataSet:
    """The figures of one data set, whose files have this name in theirs."""

    request: Request
    dataset: str
    name: str
    samples: dict[str, Sample]  # by entry
    reliability: Mapping[str, Floats]  # of runs by key

    @property
    def metric(self) -> str:
        return self.request.metrics[self.dataset][0]

    @property
    def shown(self) -> str:
        """The metric in words."""
        return self.metric.replace("_", " ")

    def figures(self) -> Iterator[Figure]:
        """All that these runs can show."""
        done = [record for sample in self.samples.values() for record in sample.done.values()]
        if any(len(record.curve) > 1 for record in done):
            yield self._figure(
                "curves",
                "Learning curves",
                f"Validation {self.shown} by epoch: mean over seeds; the band spans all seeds."
                " A start far off the rest is left out.",
                f"Lines of validation {self.shown} against epoch, one for each entry.",
            )
        if self._sizes_differ():
            yield self._figure(
                "size",
                f"{self.shown.capitalize()} against parameters",
                f"Test {self.shown}: mean and 95 % t-interval over seeds. Dotted, where there"
                " is one: the front of means that no smaller entry reaches, not a claim.",
                f"Points of test {self.shown} against parameter count, one for each entry.",
            )
        yield from self._growth()
        yield from self._speeds()
        yield from self._reliability()
        yield from self._searches()

    def _sizes_differ(self) -> bool:
        """Whether the entries with a result are of several sizes: one alone has no spread."""
        sizes = [
            record.cost.parameters
            for sample in self.samples.values()
            if sample.values(self.metric)
            for record in [*sample.done.values()][:1]
            if record.cost
        ]
        return len(sizes) > 1 and max(sizes) > 1.01 * min(sizes)

    def _figure(
        self, kind: Any, title: str, caption: str, alt: str, name: str = "", **more: Any
    ) -> Figure:
        return Figure(
            name=f"{name or kind}-{self.name}",
            kind=kind,
            dataset=self.dataset,
            title=f"{title}, {self.dataset}",
            caption=caption,
            alt=alt,
            **more,
        )

    def _speeds(self) -> Iterator[Figure]:
        """The metric against throughput, where the models were measured."""
        speeds = speed.inference(self.request, self.dataset)
        if len(speeds) > 1:
            yield self._figure(
                "throughput",
                f"{self.shown.capitalize()} against throughput",
                f"Test {self.shown}: mean and 95 % t-interval over seeds; throughput of inference:"
                " median of the blocks and its 95 % interval. Ringed: the Pareto front of medians"
                " and means, which no other entry beats in both; not a claim.",
                f"Points of test {self.shown} against throughput, the Pareto front ringed.",
                x=speed.unit(self.request),
                speeds=speeds,
            )

    def _reliability(self) -> Iterator[Figure]:
        """Confidence against accuracy, where the runs kept class probabilities."""
        pooled = {
            entry: np.sum(found, axis=0)
            for entry, sample in self.samples.items()
            if (found := [b for r in sample.done.values() if (b := self._bins(r)) is not None])
        }
        if not pooled:
            return

        def mean(entry: str) -> float:
            values = self.samples[entry].values(self.metric).values()
            return math.fsum(values) / len(values) if values else -math.inf

        best = sorted(pooled, key=mean, reverse=self.request.higher_better(self.metric))[:FEW]
        left_out = len(pooled) - len(best)
        yield self._figure(
            "reliability",
            "Reliability",
            "Of the test examples in each of 15 bins of confidence, the probability of the"
            " likeliest class: the share that is right, over their mean confidence, all seeds"
            " pooled. On the dashed line confidence is honest, below it a model claims too much."
            " Grey: how many examples are in each bin."
            + f" The {FEW} entries with the best means; {left_out} are left out."
            * bool(left_out),
            f"One panel for each entry: share of right examples against confidence, {self.dataset};"
            " the numbers stand in a table below.",
            bins={
                entry: [(round(n), c / n if n else 0.0, r / n if n else 0.0) for n, c, r in bins]
                for entry, bins in pooled.items()
                if entry in best
            },
        )

    def _bins(self, record: Record) -> Floats | None:
        found = self.reliability.get(record.key)
        return found if found is not None and np.isfinite(found).all() else None

    def _growth(self) -> Iterator[Figure]:
        """Lines through the entries of a family, over depth and over size."""
        entries = [entry for entry, sample in self.samples.items() if sample.values(self.metric)]
        counts = {
            label: float(record.cost.parameters)
            for label, sample in self.samples.items()
            for record in sample.done.values()
            if record.cost
        }
        for x, what, lines in (
            ("depth", "depth", depth_scaling.by_depth(self.request, entries)),
            ("parameters", "size", depth_scaling.by_size(self.request, entries, counts)),
        ):
            if lines:
                yield self._figure(
                    "growth",
                    f"{what.capitalize()} scaling",
                    f"Test {self.shown}: mean and 95 % t-interval over seeds. A line joins models"
                    f" of one family that differ in {what} alone.",
                    f"Lines of test {self.shown} against {x}, one for each family of models.",
                    name=x,
                    x=x,
                    lines=lines,
                )

    def _searches(self) -> Iterator[Figure]:
        """What the searches did; figures of the validation split, and no results."""
        here = [ledger for ledger in self.request.searches if ledger.dataset == self.dataset]
        if not any(ledger.best for ledger in here):
            return
        best = "Best" if here[0].repeat is None else "Mean over each entry's searches of the best"
        yield self._figure(
            "best",
            "Best so far",
            f"{best} validation {self.shown} by trial; pruned and failed trials count as trials."
            " The first trial has the recipe's own values.",
            f"Steps of the best validation {self.shown} against trials, one for each entry.",
        )
        if not any(tuning_effort.no_expectation(ledger) for ledger in here):
            yield self._figure(
                "expected",
                "Expected validation performance",
                f"Expected best validation {self.shown} of n random trials, estimated without bias"
                " from all that were drawn; a failed trial counts as the worst.",
                f"Lines of expected best validation {self.shown} against n, one for each entry.",
            )
        if any(ledger.front() for ledger in here):
            yield self._figure(
                "front",
                "Validation against cost",
                "Finished trials, pale, and the front of those that none beats in both.",
                f"Points of validation {self.shown} against cost, with a step line of the front.",
            )


def of_variance(request: Request, spreads: Spreads) -> list[Figure]:
    """The SD that each source of randomness makes, by data set."""
    figures = []
    for dataset, of_entries in spreads.items():
        shown = request.metrics[dataset][0].replace("_", " ")
        spans = {
            entry: {
                title: (part.low, part.sd, part.high)
                for title, part in parts.items()
                if part.low is not None and part.high is not None
            }
            for entry, parts in of_entries.items()
        }
        if any(spans.values()):
            figure = Figure(
                name=f"variance-{slug(dataset)}",
                kind="variance",
                dataset=dataset,
                title=f"Sources of variance, {dataset}",
                caption=(
                    f"SD of test {shown} over seeds where one source of randomness goes by the seed"
                    " and the others are held, and where all do; 95 % chi-square intervals."
                ),
                alt=f"Dots with bars: the SD of test {shown} by source, one group for each entry.",
                spreads=spans,
            )
            figures.append(figure)
    return figures


def _over_all(request: Request, samples: Samples, everywhere: Table) -> list[Figure]:
    metric = next(iter(request.metrics.values()))[0].replace("_", " ")
    figures = [
        Figure(
            name="profile",
            kind="profile",
            title="Performance profile",
            caption=(
                f"Share of all runs, over all data sets, with a test {metric} at least as good;"
                " the bands, of up to five entries, are Wilson's 95 % intervals of the share, point"
                " by point, of all runs as one sample: wide rather than narrow."
            ),
            alt=f"Falling lines: share of runs that reach a test {metric}, one for each entry.",
        )
    ]
    place = [column.id for column in everywhere.columns].index("across/rank")
    ranked = sum(row.cells[place].value is not None for row in everywhere.rows)
    datasets = len(request.metrics)
    finished = all(
        run.state not in {"missing", "running", "stale"}
        for sample in samples.values()
        for run in sample.runs
    )
    if datasets >= inference.blocks_needed() and ranked > 2 and finished:
        groups = across_data_sets.groups(request, samples)
        joined = "; ".join(", ".join(group) for group in groups) or "none"
        figures.append(
            Figure(
                name="ranks",
                kind="ranks",
                title="Mean ranks",
                caption=(
                    f"Mean rank over {datasets} data sets; 1 is best. A bar joins entries that data"
                    " sets like these can't tell apart: max-T over sign flips of the data sets'"
                    " normalised differences, all pairs at once at 0.05; a family of its own,"
                    " beside the claims about these data sets."
                ),
                alt=(
                    "A scale of ranks with one mark for each entry, and bars that join those that"
                    f" can't be told apart: {joined}."
                ),
                groups=groups,
            )
        )
    return figures
