"""Rules that a study's records must keep before its table is trusted; `bench check` asks them.

A rule is data: a name, the version of the rules that brought it, what it demands, and a function
that yields each breach in words. Most are pure, and see the plan and through it the records; those
made by `verified` and `known` read the files that the records name.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from lightning_bench.bench.plan.plan import Plan, PlannedRun
from lightning_bench.bench.spec import Source
from lightning_bench.bench.store import predictions
from lightning_bench.bench.store.integrity import problem
from lightning_bench.bench.store.record import SCHEMA_VERSION, Environment, Record
from lightning_bench.bench.store.store import ARRAYS, WEIGHTS, Damaged
from lightning_bench.bench.store.trial import with_fewer_trials
from lightning_bench.bench.study.class_metrics import CLASS_METRICS

RULES_VERSION = 4


@dataclass(frozen=True)
class Rule:
    """One demand on a study's records."""

    name: str
    since: int
    demands: str
    breaches: Callable[[Plan], Iterator[str]]


@dataclass(frozen=True)
class Printed:
    """The printed figure that an entry is held against, in the record's units."""

    entry: str
    dataset: str
    metric: str
    value: float
    higher_is_better: bool
    cite: str


def check(plan: Plan, more: Iterable[Rule] = ()) -> list[tuple[Rule, list[str]]]:
    """Every rule, and those that need to know more, with its breaches, none where it is kept."""
    return [(rule, list(rule.breaches(plan))) for rule in (*RULES, *more)]


def _records(plan: Plan) -> Iterator[tuple[PlannedRun, Record]]:
    for planned in plan.all:
        if planned.attempt and planned.attempt.record:
            yield planned, planned.attempt.record


def _name(planned: PlannedRun) -> str:
    return f"{planned.run.title} on {planned.run.dataset}, seed {planned.run.spec.seed}"


def _done(plan: Plan) -> Iterator[str]:
    for planned in plan.all:
        if planned.state != "done":
            yield f"{_name(planned)} is {planned.state}: {planned.reason}"


def _schema(plan: Plan) -> Iterator[str]:
    for planned, record in _records(plan):
        if record.schema_version != SCHEMA_VERSION:
            yield f"{_name(planned)}: schema {record.schema_version}, not {SCHEMA_VERSION}"
        if record.spec.key != planned.key:
            yield f"{_name(planned)}: its spec's key is {record.spec.key}, not {planned.key}"


def _seeds(plan: Plan) -> Iterator[str]:
    seeds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for planned in plan.runs:
        if planned.state == "done":
            seeds[planned.run.title, planned.run.dataset].append(planned.run.spec.seed)
    for (entry, dataset), done in seeds.items():
        if len(set(done)) < len(done):
            yield f"{entry} on {dataset} has a seed twice: {sorted(done)}"
        if set(done) != set(plan.study.seeds):
            lacking = sorted(set(plan.study.seeds) - set(done))
            yield f"{entry} on {dataset} lacks the seeds {lacking}"


def _budgets(plan: Plan) -> Iterator[str]:
    """The training itself: epochs and examples seen, unless just these were tuned."""
    tuned = {name for ledger in plan.searches for name in ledger.space}
    if tuned & {"epochs", "batch_size"}:
        return
    spent: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for planned, record in _records(plan):
        if record.status == "done" and record.curve and not planned.keep_weights:
            batch = record.spec.recipe.batch_size
            spent[planned.run.dataset].add((len(record.curve), record.curve[-1].step * batch))
    for dataset, lengths in spent.items():
        if len(lengths) > 1:
            listed = ", ".join(f"{epochs} epochs of {seen:,}" for epochs, seen in sorted(lengths))
            yield f"entries on {dataset} trained for different lengths: {listed} examples in all"


def _tuning(plan: Plan) -> Iterator[str]:
    for ledger in plan.searches:
        if not ledger.closed:
            tried = f"{len(ledger.trials)} of {ledger.budget.trials} trials"
            yield f"the search of {ledger.name} on {ledger.dataset} is not finished: {tried}"
    for dataset, ledgers in with_fewer_trials(plan.searches).items():
        for ledger in ledgers:
            tried = f"{len(ledger.trials)} trials and {ledger.device_h:.3g} device-hours"
            yield f"{ledger.name} on {dataset} had {tried}; others had more trials"


def _choices(plan: Plan) -> Iterator[str]:
    for ledger in plan.searches:
        if ledger.outdated:
            yield f"{ledger.name} on {ledger.dataset}: {ledger.outdated_summary}"


def _counts(plan: Plan) -> Iterator[str]:
    for planned, record in _records(plan):
        if record.status == "done" and record.data and record.scored != record.data.test:
            yield f"{_name(planned)} scored {record.scored} of {record.data.test} test examples"


def _sizes(plan: Plan) -> Iterator[str]:
    sizes: dict[tuple[str, str], dict[int, list[str]]] = defaultdict(dict)
    for planned, record in _records(plan):
        if record.cost and record.data:
            # A vocabulary of the training examples, and with it the model, differs by the split.
            like = (record.spec.model.model_dump_json(), record.data.fingerprint)
            sizes[like].setdefault(record.cost.parameters, []).append(_name(planned))
    for counts in sizes.values():
        usual = max(counts, key=lambda count: len(counts[count]))
        for count, names in counts.items():
            if count != usual:
                yield f"{names[0]} has {count} parameters, where others have {usual}"


def _fingerprints(plan: Plan) -> Iterator[str]:
    fingerprints: dict[str, dict[str, str]] = defaultdict(dict)
    for planned, record in _records(plan):
        if record.data:
            same = f"{planned.run.dataset}{_drawn(record)}"
            fingerprints[same].setdefault(record.data.fingerprint, _name(planned))
    for dataset, examples in fingerprints.items():
        if len(examples) > 1:
            listed = "; ".join(f"{digest[:12]} in {name}" for digest, name in examples.items())
            yield f"{dataset} was not the same data for all: {listed}"


def _drawn(record: Record) -> str:
    """The seeds that drew the data, of shots or of a split, in words."""
    of: list[Source] = ["shots"] if record.spec.data.shots else []
    of += ["split"] if record.spec.data.split != "fixed" else []
    seeds = sorted({record.spec.seed_of(source) for source in of})
    return "".join(f", seed {seed}," for seed in seeds)


def _hardware(plan: Plan) -> Iterator[str]:
    hardware: dict[tuple[str, int, int], str] = {}
    for planned, record in _records(plan):
        made = record.provenance
        if record.status == "done":
            hardware.setdefault((made.device, made.devices, made.threads), _name(planned))
    if len(hardware) > 1:
        listed = "; ".join(
            f"{devices} × {device}, {threads} threads, in {name}"
            for (device, devices, threads), name in hardware.items()
        )
        yield f"costs of different hardware stand in one table: {listed}"
    environments = {
        record.provenance.environment for _, record in _records(plan) if record.status == "done"
    }
    if len(environments) > 1:
        yield f"the runs come from {len(environments)} different environments (see environments/)"


def _devices(plan: Plan) -> Iterator[str]:
    kinds: dict[str, str] = {}
    for planned, record in _records(plan):
        made = record.provenance
        # Older records don't tell a GPU's kind.
        if record.status == "done" and (made.device_kind or made.device == "cpu"):
            kinds.setdefault(made.device_kind or "CPU", _name(planned))
    if len(kinds) > 1:
        listed = "; ".join(f"{kind} in {name}" for kind, name in kinds.items())
        yield f"kinds of devices, which round differently, are mixed: {listed}"


def _numbers(plan: Plan) -> Iterator[str]:
    for planned, record in _records(plan):
        if record.status == "done":
            for metric, value in record.metrics.items():
                if not math.isfinite(value):
                    yield f"{_name(planned)}: {metric} is {value}"


def _revisions(plan: Plan) -> Iterator[str]:
    revisions = {
        (record.provenance.git_revision, record.provenance.git_dirty)
        for _, record in _records(plan)
        if record.status == "done"
    }
    if any(dirty for _, dirty in revisions):
        yield "some runs were made with uncommitted changes in the source"
    if len({revision for revision, _ in revisions}) > 1:
        yield f"the runs come from {len(revisions)} revisions of the source"


#: Better than print is a finding; so much better is, until shown otherwise, a leak or a mistake:
#: an error less than half the printed one and two points below it, or a loss below three quarters.
OF_ERROR, OF_POINTS, OF_LOSS = 0.5, 0.02, 0.75


def plausible(printed: Sequence[Printed]) -> Rule:
    """The rule that no mean leaves print behind by an implausible margin."""

    def breaches(plan: Plan) -> Iterator[str]:
        for figure in printed:
            values = [
                record.metrics[figure.metric]
                for planned, record in _records(plan)
                if planned.state == "done" and figure.metric in record.metrics
                if (planned.run.entry, planned.run.dataset) == (figure.entry, figure.dataset)
            ]
            if values and _beyond(fmean(values), figure):
                yield (
                    f"{figure.entry} on {figure.dataset}: mean {figure.metric} {fmean(values):.4g},"
                    f" where {figure.cite} prints {figure.value:.4g}"
                )

    demands = "no result is better than print by an implausible margin"
    return Rule("plausible", 2, demands, breaches)


def known(read_environment: Callable[[str], Environment | None]) -> Rule:
    """The rule that the store has the environment of every record, as its digest names it."""

    def breaches(plan: Plan) -> Iterator[str]:
        digests = {record.provenance.environment for _, record in _records(plan)}
        for digest in sorted(filter(None, digests)):
            if read_environment(digest) is None:
                yield f"environments/{digest}.json is gone, or is not what its name says"

    demands = "the hardware and packages of every run are known"
    return Rule("environments", 3, demands, breaches)


#: A metric from the predictions on a split, None for one that these don't tell.
MetricOf = Callable[[str, Mapping[str, Any]], float | None]
#: Shares of examples are the same to the last digit; the others are computed in single precision.
OF_SHARES, OF_OTHERS = 1e-9, 1e-4


def verified(metric_of: MetricOf) -> Rule:
    """The rule that predictions are whole and have the metrics that the record claims."""

    def breaches(plan: Plan) -> Iterator[str]:
        for planned, record in _records(plan):
            if planned.attempt and record.status == "done":
                for breach in _of_predictions(planned.attempt.folder, record, metric_of):
                    yield f"{_name(planned)}: {breach}"

    demands = "every record's predictions are whole, and give its metrics"
    return Rule("predictions", 3, demands, breaches)


def _of_predictions(folder: Path, record: Record, metric_of: MetricOf) -> Iterator[str]:
    if record.weights and problem(f"{folder}/{WEIGHTS}", record.weights) == "damaged":
        yield "its weights are damaged"
    if record.arrays and (found := problem(f"{folder}/{ARRAYS}", record.arrays)):
        yield f"what its probes kept for figures is {found}"
    if record.predictions is None:
        if record.scored:
            yield f"it has no predictions, and claims to have scored {record.scored} examples"
        return
    try:
        arrays = predictions.read(folder, record.predictions)
    except Damaged as error:
        yield str(error)
        return
    if record.probabilities:
        try:
            arrays |= predictions.read_probabilities(folder, record.probabilities)
        except Damaged as error:
            yield str(error)
    scored = 0
    for name in list(arrays):
        if name == "index" or name.endswith("_index"):
            prefix = name.removesuffix("index")
            split = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
            scored += len(split["index"])
            yield from _of_split(prefix.removesuffix("_"), split, record, metric_of)
    if scored != record.scored:
        yield f"its predictions are of {scored} examples, not {record.scored}"


def _of_split(
    name: str, arrays: Mapping[str, Any], record: Record, metric_of: MetricOf
) -> Iterator[str]:
    """Breaches of the predictions on one test split; the first one's name is empty."""
    of = f" of {name}" if name else ""
    count = len(arrays["index"])
    if arrays["index"].tolist() != list(range(count)):
        yield f"its predictions{of} are not of every example once, in order"
    elif any(len(arrays.get(array, ())) != count for array in ("target", "predicted")) or any(
        len(arrays[array]) != count for array in ("probabilities", "likeliest") if array in arrays
    ):
        yield f"its predictions{of} and targets are not as many as its examples"
    else:
        for metric, value in record.metrics.items():
            base = metric.removesuffix(f"_{name}")
            given = metric_of(base, arrays) if bool(name) == (base != metric) else None
            exact = base.endswith("accuracy") or base in CLASS_METRICS
            close = OF_SHARES if exact else OF_OTHERS
            if given is not None and not math.isclose(value, given, rel_tol=close, abs_tol=close):
                yield f"its record says {metric} {value:.6g}, its predictions {given:.6g}"


def _beyond(mean: float, figure: Printed) -> bool:
    if not figure.higher_is_better:
        return mean < OF_LOSS * figure.value
    smaller = (1 - mean) < OF_ERROR * (1 - figure.value)
    return smaller and mean - figure.value > OF_POINTS


RULES = (
    Rule("done", 1, "every run is done, and none is stale", _done),
    Rule("schema", 1, "every record has this schema and the key of its own spec", _schema),
    Rule("seeds", 1, "every entry has the same seeds, each once", _seeds),
    Rule("budgets", 1, "every entry on a data set had the same budget", _budgets),
    Rule("tuning", 2, "every entry on a data set had, and spent, the same tuning budget", _tuning),
    Rule("choices", 1, "every search was done with the code of today", _choices),
    Rule("counts", 1, "every test example was scored exactly once", _counts),
    Rule("sizes", 4, "a model has as many parameters with every seed", _sizes),
    Rule("fingerprints", 1, "all entries saw the same data", _fingerprints),
    Rule("hardware", 1, "one hardware and one environment for all that is ranked", _hardware),
    Rule("devices", 3, "one kind of device for all results of a table", _devices),
    Rule("numbers", 1, "every metric is a finite number", _numbers),
    Rule("revisions", 1, "one committed revision of the source", _revisions),
)
