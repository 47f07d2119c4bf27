"""The runs sorted into samples: for each entry and data set, the values by seed."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from lightning_bench.bench.store.record import Record
from lightning_bench.bench.study.class_metrics import CLASS_METRICS
from lightning_bench.reports.request import ReportedRun, Request


@dataclass
class Sample:
    """All runs of one entry on one data set, and the records of those that are done."""

    runs: list[ReportedRun] = field(default_factory=list)
    done: dict[int, Record] = field(default_factory=dict)
    untuned: bool = False  # one of its searches came to nothing, and so has no run
    _values: dict[str, dict[int, float]] = field(default_factory=dict, init=False, repr=False)

    @property
    def draws_nothing(self) -> bool:
        """Whether its seeds are no replicates: nothing was trained, and all predict the same."""
        records = list(self.done.values())
        return (
            len(records) > 1
            and all(record.spec.recipe.epochs == 0 for record in records)
            and records[0].predictions is not None
            and len({record.predictions for record in records}) == 1
        )

    def values(self, metric: str) -> Mapping[int, float]:
        """The metric by seed, where a finished run has a finite one; all runs are known by then.

        Seeds that draw nothing are one run.
        """
        if metric not in self._values:
            every = {seed: record.metrics.get(metric) for seed, record in self.done.items()}
            if self.draws_nothing:
                every = dict([min(every.items())])
            self._values[metric] = {
                seed: value
                for seed, value in every.items()
                if value is not None and math.isfinite(value)
            }
        return self._values[metric]

    def state(self, metric: str) -> str:
        """What to print where no value can be: the worst that happened to its runs."""
        if not self.runs:
            return ""  # a dash: nothing was planned here
        failures = [
            run.record.failure.kind if run.record and run.record.failure else "failed"
            for run in self.runs
            if run.state == "failed"
        ]
        if failures:
            return {"divergence": "diverged"}.get(failures[0], failures[0])
        states = {run.state for run in self.runs}
        if states == {"done"}:
            lacking = any(not_kept(record, metric) for record in self.done.values())
            return "not kept" if lacking else f"no {metric}"
        order = ("running", "stale", "missing", "pruned", "done")
        return next(state for state in order if state in states)

    def failed(self, metric: str) -> bool:
        """Whether a run failed, or ended without a finite value."""
        expected = 1 if self.draws_nothing else len(self.done)
        return (
            self.untuned
            or any(run.state == "failed" for run in self.runs)
            or len(self.values(metric)) < expected
        )


def not_kept(record: Record | None, metric: str) -> str:
    """Why a finished run lacks a metric of its class probabilities, which it could have."""
    if record is None or metric in record.metrics or metric not in CLASS_METRICS:
        return ""
    if record.too_many_probabilities:
        return f"kept no class probabilities: {record.too_many_probabilities}"
    if record.probabilities:
        return ""
    return (
        f"kept no class probabilities, of which {metric} is made; bench run --add-probabilities"
        " runs such runs again"
    )


Samples = Mapping[tuple[str, str], Sample]


def collect(request: Request, runs: Iterable[ReportedRun]) -> Samples:
    """Runs by (entry, data set), each sample's runs in the order of their seeds.

    A run of an entry or a data set that the request doesn't name is a KeyError.
    """
    samples = {
        (entry, dataset): Sample() for dataset in request.metrics for entry in request.entries
    }
    for ledger in request.searches:
        if ledger.repeat is not None and ledger.closed and ledger.best is None:
            samples[ledger.entry, ledger.dataset].untuned = True
    # What varies one source of randomness alone stands in a table of its own.
    own = [run for run in runs if not run.varied]
    for run in sorted(own, key=lambda run: (run.seed, run.key)):
        sample = samples[run.entry, run.dataset]
        sample.runs.append(run)
        # A trial, pruned or not, is no result: it never saw the test split.
        record = run.record
        if run.state == "done" and record and record.status == "done" and record.spec.tested:
            sample.done[run.seed] = record
    return samples


def of_seeds(samples: Samples, seeds: Collection[int]) -> Samples:
    """The runs of these seeds alone, as an earlier look had them."""
    return {
        place: Sample(
            [run for run in sample.runs if run.seed in seeds],
            {seed: record for seed, record in sample.done.items() if seed in seeds},
        )
        for place, sample in samples.items()
    }
