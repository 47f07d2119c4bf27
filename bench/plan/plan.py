"""Plan: each run of a study with its state, the reason in words, and its expected time.

Pure: it is given what the store holds and what the sources are, and touches neither. (Weights that
others are to start from, the largest files, it asks the attempt about.)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from lightning_bench.bench.plan.expected_times import (
    UNKNOWN_TIME,
    Estimates,
    Expected,
    expected_times,
    expected_trial_times,
)
from lightning_bench.bench.plan.source_digests import changed, is_of_version_0_1
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Attempt
from lightning_bench.bench.store.trial import Ledger
from lightning_bench.bench.study import class_metrics
from lightning_bench.bench.study.class_metrics import tests_kept, too_many
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.bench.study.study import Run, Study

State = Literal["done", "missing", "stale", "failed", "running"]


#: Why the runs of an old store are stale, all of them.
OF_VERSION_0_1 = "made by version 0.1, before the code was rearranged"


@dataclass(frozen=True)
class PlannedRun:
    """A run, where it stands and what it is expected to take."""

    run: Run
    state: State
    reason: str
    expected_s: float  # 0 where nobody can know
    attempt: Attempt | None
    sources: Mapping[str, str]
    keep_weights: bool = False  # others start from them
    start: Path | None = None  # the attempt to start from, where it isn't the store's newest
    losses: int = 0  # of earlier attempts, where they count
    expected: Expected = UNKNOWN_TIME  # what the seconds rest on

    @property
    def key(self) -> str:
        """The run's name in the store."""
        return self.run.key

    @property
    def record(self) -> Record | None:
        """What its newest attempt left, if it left anything."""
        return self.attempt.record if self.attempt else None

    @property
    def lost(self) -> bool:
        """Whether its newest attempt failed for no reason of the run's own."""
        return self.attempt is not None and self.attempt.lost

    @property
    def next_attempt(self) -> int:
        """The number that the next attempt gets."""
        return 1 if self.attempt is None else self.attempt.number + 1


@dataclass(frozen=True)
class Plan:
    """The runs of a study in the order in which they are to be run.

    `before` are those that others start from; they come first, and in no table.
    """

    study: Study
    runs: list[PlannedRun]
    searches: list[Ledger] = field(default_factory=list)
    before: list[PlannedRun] = field(default_factory=list)
    trials: Mapping[tuple[str, str], Expected] = field(
        default_factory=dict
    )  # a run of one, by cell

    @property
    def all(self) -> list[PlannedRun]:
        """First what others start from, then the study's own."""
        return [*self.before, *self.runs]

    @property
    def searching(self) -> bool:
        """Whether a search has trials to run, or to account for."""
        return any(not ledger.closed or ledger.untold for ledger in self.searches)

    def to_run(self, *, retry_failed: bool = False) -> list[PlannedRun]:
        """What `bench run` has to do; entries that share a run share its place.

        What was lost for no reason of its own is tried again, other failures on demand only.
        """
        return self._unique(p for p in self.all if _is_to_run(p, retry_failed=retry_failed))

    def running(self) -> list[PlannedRun]:
        """What other processes are at."""
        return self._unique(planned for planned in self.all if planned.state == "running")

    def counts(self) -> dict[State, int]:
        """How many runs are in each state; every state has a number."""
        counts: dict[State, int] = dict.fromkeys(
            ("done", "missing", "stale", "failed", "running"), 0
        )
        for planned in self.all:
            counts[planned.state] += 1
        return counts

    def of_version_0_1(self) -> int:
        """How many runs are stale because another version named its sources otherwise."""
        return sum(planned.reason == OF_VERSION_0_1 for planned in self.all)

    def _unique(self, chosen: Iterable[PlannedRun]) -> list[PlannedRun]:
        unique: dict[str, PlannedRun] = {}
        for planned in chosen:
            unique.setdefault(planned.key, planned)
        return list(unique.values())


def adding_probabilities(plan: Plan) -> Plan:
    """The plan in which a run is missing, too, that is done but kept no class probabilities."""

    def judged(planned: PlannedRun) -> PlannedRun:
        record = planned.record
        if planned.state != "done" or record is None:
            return planned
        if record.probabilities or record.too_many_probabilities:
            return planned
        if not tests_kept(dataset_of(planned.run.spec.data)):
            return planned
        reason = "done, but no class probabilities were kept"
        return replace(planned, state="missing", reason=reason)

    return replace(plan, runs=[judged(planned) for planned in plan.runs])


def probability_bytes(plan: Plan) -> int:
    """At most so many bytes of class probabilities the runs to come keep; 0 where none are kept."""
    if plan.study.predictions == "labels":
        return 0
    runs = Counter(p.run.spec.data for p in plan.to_run() if p.run.spec.tested)
    datasets = [(dataset_of(data), number) for data, number in runs.items()]
    return sum(
        number * class_metrics.probability_bytes(dataset, dataset.splits)
        for dataset, number in datasets
        if not too_many(dataset, dataset.splits)
    )


def make(
    study: Study,
    runs: Sequence[Run],
    attempts: Mapping[str, Attempt],
    sources_of: Callable[[RunSpec], Mapping[str, str]],
    searches: Iterable[Ledger] = (),
    before: Sequence[Run] = (),
    estimates: Estimates | None = None,
    *,
    elsewhere: bool = False,
    on_devices: tuple[str, int] | None = None,
) -> Plan:
    """Judge every run of the study by its newest attempt and today's sources.

    `before` are the runs that others start from, parents first. `estimates` are asked where
    no run of the same entry on the same data tells, or where the rest is to run `elsewhere`.
    With `on_devices`, a kind and a number, runs on these alone tell.
    """
    timed = {} if elsewhere else attempts
    expected = expected_times([*before, *runs], timed, estimates, on_devices)
    parents: dict[str, PlannedRun] = {}

    def planned(run: Run, *, keep_weights: bool) -> PlannedRun:
        attempt, sources = attempts.get(run.key), sources_of(run.spec)
        state, reason = judge(attempt, sources)
        if run.spec.start is not None and (parent := parents.get(run.spec.start.key)):
            state, reason = _judge_by_parent(state, reason, attempt, parent)
        time = expected[run.entry, run.dataset]
        return PlannedRun(
            run,
            state,
            reason,
            time.seconds,
            attempt,
            sources,
            keep_weights=keep_weights,
            expected=time,
        )

    for run in before:
        parents[run.key] = planned(run, keep_weights=True)
    own = [
        replace(parents[run.key], run=run)
        if run.key in parents
        else planned(run, keep_weights=False)
        for run in runs
    ]
    ledgers = list(searches)
    unfinished = [ledger for ledger in ledgers if not ledger.closed]
    return Plan(
        study,
        own,
        ledgers,
        _with_lost_weights(list(parents.values()), own, trials=bool(unfinished)),
        expected_trial_times(study, unfinished, estimates, elsewhere=elsewhere),
    )


def expecting(plan: Plan, device: str, devices: int) -> Plan:
    """The plan with the times that its runs take on so many of these devices."""
    attempts = {planned.key: planned.attempt for planned in plan.all if planned.attempt}
    runs = [planned.run for planned in plan.all]
    expected = expected_times(runs, attempts, None, (device, devices))

    def timed(all_planned: list[PlannedRun]) -> list[PlannedRun]:
        times = [expected[planned.run.entry, planned.run.dataset] for planned in all_planned]
        return [
            replace(planned, expected_s=time.seconds, expected=time)
            for planned, time in zip(all_planned, times, strict=True)
        ]

    return replace(plan, runs=timed(plan.runs), before=timed(plan.before))


def judge(attempt: Attempt | None, sources: Mapping[str, str]) -> tuple[State, str]:
    """The state of a run and why."""
    if attempt is None:
        return "missing", "never run"
    if attempt.state == "running":
        return "running", f"attempt {attempt.number} is running now"
    if attempt.state == "interrupted":
        return "missing", f"attempt {attempt.number} was interrupted"
    if attempt.state == "damaged" or attempt.record is None:
        return "missing", f"the record of attempt {attempt.number} is damaged: {attempt.problem}"
    record = attempt.record
    if is_of_version_0_1(record.provenance.sources):
        return "stale", OF_VERSION_0_1
    files = changed(record.provenance.sources, sources)
    if files:
        more = f" and {len(files) - 2} more" if len(files) > 2 else ""
        return "stale", f"{', '.join(files[:2])}{more} changed since"
    if record.failure:
        if record.failure.lost:
            return "failed", f"lost in attempt {attempt.number}: {record.failure.message}"
        return "failed", f"{record.failure.kind}: {record.failure.message}"
    if record.status == "pruned":
        return "missing", f"attempt {attempt.number} was stopped early"
    if attempt.predictions:
        return "missing", f"done, but its predictions are {attempt.predictions}"
    return "done", f"{record.ended[:16].replace('T', ' ')} UTC"


def _judge_by_parent(
    state: State, reason: str, attempt: Attempt | None, parent: PlannedRun
) -> tuple[State, str]:
    """The state of a run that starts from another's weights, given its own and the other's."""
    if state == "running":
        return state, reason
    label = parent.run.entry
    if parent.state == "failed" and not parent.lost:
        return "failed", f"can't start: {label} failed ({parent.reason})"
    record = attempt.record if attempt else None
    # A run that stopped before it had weights to start from says nothing of them.
    if record is None or record.start is None or state not in {"done", "failed"}:
        return state, reason
    if parent.state != "done":
        again = "is being run again" if parent.state == "running" else "is to be run again"
        return "stale", f"it started from {label}, which {again}"
    if parent.attempt is None or parent.record is None:
        return state, reason
    if parent.record.weights != record.start.weights_sha256:
        return "stale", (
            f"it started from {label} of attempt {record.start.attempt}, "
            f"attempt {parent.attempt.number} has other weights"
        )
    return state, reason


def _with_lost_weights(
    before: Sequence[PlannedRun], runs: Sequence[PlannedRun], *, trials: bool
) -> list[PlannedRun]:
    """The runs that others start from; one is missing if its weights are lost, but still needed.

    They are needed by runs that are yet to be run, and by `trials` that are yet to come.
    """
    to_run = [planned for planned in runs if _is_to_run(planned)]
    judged: list[PlannedRun] = []
    for planned in reversed(before):
        starting = sum(
            child.run.spec.start is not None and child.run.spec.start.key == planned.key
            for child in to_run
        )
        needed = (starting or trials) and planned.state == "done"
        if needed and planned.attempt and (problem := planned.attempt.weights()):
            starts = "1 run starts" if starting == 1 and not trials else "others start"
            reason = f"done, but its weights are {problem}, and {starts} from them"
            planned = replace(planned, state="missing", reason=reason)
        judged.append(planned)
        if _is_to_run(planned):
            to_run.append(planned)
    return judged[::-1]


def _is_to_run(planned: PlannedRun, *, retry_failed: bool = False) -> bool:
    """Whether `bench run` runs it: what failed for a reason of its own, on demand only."""
    if planned.state == "failed":
        return retry_failed or planned.lost
    return planned.state in {"missing", "stale"}
