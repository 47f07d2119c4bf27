"""Values of the axes that a page names, of an entry on a data set."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lightning_bench.bench.study.figures import AVERAGE, FACTS, PRIMARY, PageFigure
from lightning_bench.reports.report import Cell, Column, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.samples import Sample, Samples
from lightning_bench.reports.tables import failed_attempts, speed

#: Counts that are printed with k, M, G.
_LARGE = {"parameters", "flops", "pretraining_flops", "pretraining_examples", "throughput"}
#: Axes whose names in a page are short.
_SETTINGS = {
    "recipe.lr": "learning rate",
    "data.image_size": "image side [pixels]",
    "data.shots": "training examples a class",
}
_PROBED = {
    "field_effective": "effective receptive field [pixels]",
    "field_formula": "receptive field by the formula [pixels]",
    "field_box": "receptive field, every gradient [pixels]",
    "toeplitz": "share that is Toeplitz",
    "toeplitz_random": "share that is Toeplitz of random matrices",
}


@dataclass(frozen=True)
class Estimated:
    """A number in its printed unit and, where it has one, its 95 % interval."""

    value: float
    low: float | None = None
    high: float | None = None


#: A number, or the name of a category; None where there is none.
Value = Estimated | str | None


@dataclass(frozen=True)
class Quantities:
    """All that figures' axes may name, by entry and data set."""

    request: Request
    samples: Samples
    main: Table

    def entries(self, figure: PageFigure) -> list[str]:
        """The entries that a figure shows."""
        return [label for label in self.request.entries if label in (figure.entries or [label])]

    def datasets(self, figure: PageFigure, *names: str) -> list[str]:
        """The data sets that a figure shows: those that have the metrics of these names."""
        chosen = [name for name in self.request.metrics if name in (figure.data or [name])]
        return [each for each in chosen if all(self._has(each, name) for name in names)]

    def of_data(self, name: str) -> bool:
        """Whether it differs from data set to data set."""
        return not (name in FACTS and name not in {"train_s", "throughput", "parameters"}) and (
            not name.startswith((AVERAGE, "args.", "recipe."))
        )

    def label(self, name: str, dataset: str = "") -> str:
        """What an axis says."""
        if name == "throughput":
            return speed.unit(self.request) or FACTS[name]
        if name in FACTS:
            return FACTS[name]
        if "." in name and not name.startswith(AVERAGE):
            key = name.partition(".")[2]
            return _SETTINGS.get(name, key.replace("_", " "))
        metric, percent = self._metric(name, dataset)
        if metric in self.request.neutral:  # of probes: measures of the model, not of a test
            return _PROBED.get(metric, metric.replace("_", " "))
        return f"test {metric.replace('_', ' ')}{' [%]' * percent}"

    def large(self, name: str) -> bool:
        """Whether its numbers need k, M, G."""
        return name in _LARGE

    def percent(self, metric: str) -> bool:
        """Whether a metric, of whichever split, is printed times 100."""
        plain = metric.removeprefix("train_").removesuffix("_train")
        numbered = metric.rstrip("0123456789").rpartition("_")[0]
        return not {metric, plain, numbered}.isdisjoint(self.request.percent)

    def value(self, name: str, label: str, dataset: str) -> Value:
        """What an entry has of a quantity."""
        if name in FACTS:
            return self._fact(name, label, dataset)
        if name.startswith(AVERAGE):
            return self._cell(label, name)
        if "." in name:
            return self._setting(name, label, dataset)
        metric, _ = self._metric(name, dataset)
        return self.metric(metric, label, dataset)

    def metric(self, metric: str, label: str, dataset: str) -> Estimated | None:
        """Mean and interval of a metric of the test, as in the table or, if not in it, like it."""
        if found := self._cell(label, f"{dataset}/{metric}"):
            return found
        values = list(self.samples[label, dataset].values(metric).values())
        if not values:
            return None
        of = inference.summarise(values)
        scale = 100.0 if self.percent(metric) else 1.0
        return Estimated(
            scale * of.mean,
            None if of.low is None else scale * of.low,
            None if of.high is None else scale * of.high,
        )

    def numbered(self, name: str, label: str, dataset: str) -> Iterator[tuple[int, Estimated]]:
        """The metrics that a name with * stands for, by their numbers; what it grew from is 0."""
        start = name.removesuffix("*")
        sample = self.samples[label, dataset]
        found = {metric for record in sample.done.values() for metric in record.metrics}
        numbers = {int(m[len(start) :]): m for m in found if _is_numbered(m, start)}
        plain = start.rpartition("_")[0]
        if numbers and 0 not in numbers and plain in self.request.metrics[dataset]:
            numbers[0] = plain
        for number in sorted(numbers):
            if (value := self.metric(numbers[number], label, dataset)) is not None:
                yield number, value

    def state(self, name: str, label: str, dataset: str) -> str:
        """Why an entry has no value: diverged, missing, not of the plan."""
        return self.samples[label, dataset].state(self._metric(name, dataset)[0])

    def series(self, name: str, label: str, dataset: str) -> str:
        """The name of the line that an entry's point is of."""
        entry = self.request.entries[label]
        if name == "entry":
            return label
        if name == "dataset":
            return dataset
        if name == "group":
            return entry.group or self.request.facts_of(label).family or entry.model
        if name == "model":
            return entry.model
        value = self.value(name, label, dataset)
        shown = f"{value.value:g}" if isinstance(value, Estimated) else value or "none"
        return f"{name.partition('.')[2].replace('_', ' ')} {shown}"

    def _metric(self, name: str, dataset: str) -> tuple[str, bool]:
        """A metric by its name, and whether it is printed in per cent."""
        if name.startswith(AVERAGE):
            title = name.removeprefix(AVERAGE)
            metric = self.request.metrics[self.request.study.averages[title][0]][0]
            return f"{metric}, {title}", self.percent(metric)
        metric = self.request.metrics[dataset][0] if name == PRIMARY and dataset else name
        if metric.endswith("*"):
            start = metric.removesuffix("*")
            plain = start.rpartition("_")[0]
            return plain if self.percent(plain) else start.strip("_"), self.percent(plain)
        return metric, self.percent(metric)

    def _has(self, dataset: str, name: str) -> bool:
        """Whether a data set has a metric; what is no metric is of every data set."""
        if name == PRIMARY or name.endswith("*") or name in FACTS or "." in name or "/" in name:
            return True
        metrics = self.request.metrics[dataset]
        return name in metrics or any(
            name in record.metrics
            for (_, of), sample in self.samples.items()
            if of == dataset
            for record in sample.done.values()
        )

    @cached_property
    def _columns(self) -> dict[str, tuple[int, Column]]:
        return {column.id: (place, column) for place, column in enumerate(self.main.columns)}

    @cached_property
    def _rows(self) -> dict[str, list[Cell]]:
        return {row.label: row.cells for row in self.main.measured}

    def _cell(self, label: str, column_id: str) -> Estimated | None:
        place, column = self._columns.get(column_id, (-1, None))
        if column is None or (cell := self._rows[label][place]).value is None:
            return None
        low, high = (None if end is None else end * column.scale for end in (cell.low, cell.high))
        return Estimated(cell.value * column.scale, low, high)

    def _fact(self, name: str, label: str, dataset: str) -> Estimated | None:
        known = self.request.entry_facts.get(name, {}).get(label)
        if name == "throughput":
            span = speed.inference(self.request, dataset).get(label)
            return Estimated(span[1], span[0], span[2]) if span else None
        if name == "pretraining_h":
            hours, unknown = failed_attempts.total(self.request.before.get(label, []))
            known = hours if hours and not unknown else None
        elif name == "pretraining_examples" and known is None:
            known = self._pretraining_examples(label)
        elif name in {"flops", "tokens", "parameters"} and label in self.request.counted:
            known = getattr(self.request.counted[label], name)
        elif name == "depth":
            known = self.request.facts_of(label).depth
        elif name in {"parameters", "train_s"}:
            return self._cost(name, self.samples[label, dataset])
        return None if known is None else Estimated(float(known))

    def _pretraining_examples(self, label: str) -> int | None:
        """The different examples that the stages of an entry are trained on."""
        records = [run.record for run in self.request.before.get(label, [])]
        if not records or any(record is None or record.data is None for record in records):
            return None
        return sum(record.data.train for record in records if record and record.data)

    def _cost(self, name: str, sample: Sample) -> Estimated | None:
        costs = [record.cost for record in sample.done.values() if record.cost]
        if not costs:
            return None
        return Estimated(math.fsum(getattr(cost, name) for cost in costs) / len(costs))

    def _setting(self, name: str, label: str, dataset: str) -> Value:
        room, _, key = name.partition(".")
        entry = self.request.study.resolved[label]
        value: Any = None
        if room == "args":
            argument = entry.variant.arguments.get(key)
            value = entry.model.args.get(key, argument.default if argument else None)
        elif room == "recipe":
            value = getattr(entry.recipe, key)
        elif dataset in entry.data:
            spec, of = entry.data[dataset]
            value = getattr(spec, key)
            value = getattr(of, key, None) if value is None else value
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return None if value is None else Estimated(float(value))
        return str(value).lower() if isinstance(value, bool) else str(value)


def _is_numbered(name: str, start: str) -> bool:
    return name.startswith(start) and name[len(start) :].isdecimal()


def spread(values: Iterable[float], least: float = 0.01) -> bool:
    """Whether numbers differ by more than a hundredth of the largest."""
    known = list(values)
    largest = max((abs(value) for value in known), default=0.0)
    return bool(known) and max(known) - min(known) > least * largest
