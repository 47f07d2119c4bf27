"""The tuner: all searches of a study, as work that the executor takes run by run.

The parent asks Optuna for values and tells it the outcome; a trial's runs are ordinary runs of the
store. Any number of parents may tune at once: each holds a claim on its trials (`ledger`).
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import fmean
from typing import TYPE_CHECKING

from lightning_bench.bench.execute.executor import Listener
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.plan.plan import PlannedRun, judge
from lightning_bench.bench.search import ledger
from lightning_bench.bench.search.ledger import SearchFolder, TrialClaim
from lightning_bench.bench.search.optuna_study import Sampling
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.record import Epoch, Record
from lightning_bench.bench.store.store import Attempt, Store
from lightning_bench.bench.store.trial import Trial, TrialState
from lightning_bench.bench.study.search_cell import Cell
from lightning_bench.bench.study.study import Run

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

#: How often a trial that was lost with its worker is begun again.
RETRIES = 1
_LOOK_S = 0.5


@dataclass
class _Search:
    """A search that may have trials left: its folder and its Optuna study."""

    folder: SearchFolder
    sampling: Sampling

    @property
    def cell(self) -> Cell:
        return self.folder.cell


@dataclass
class _OpenTrial:
    """A trial whose claim this parent holds."""

    search: _Search
    claim: TrialClaim
    started: str
    runs: dict[str, PlannedRun] = field(default_factory=dict)  # by key, one a seed
    records: dict[str, Record] = field(default_factory=dict)
    curves: dict[str, dict[int, float]] = field(default_factory=dict)
    reported: int = 0

    @property
    def curve(self) -> list[tuple[int, float]]:
        """The validation metric by epoch, a mean over seeds, as far as all its runs have come."""
        shared = set.intersection(*(set(curve) for curve in self.curves.values()))
        return [(e, fmean(curve[e] for curve in self.curves.values())) for e in sorted(shared)]


class Tuner(Listener):
    """Hands out the runs of trials and follows them; every search gets its next trial in turn.

    `prune` is the executor's, to be set before it runs. `devices` are those of one run.
    """

    def __init__(
        self,
        cells: Iterable[Cell],
        store: Store,
        storage: "BaseStorage",
        *,
        expected_s: float = 0.0,
        devices: int = 1,
    ) -> None:
        self.store, self.expected_s, self.devices = store, expected_s, devices
        self.prune: Callable[[PlannedRun], None] = lambda planned: None
        self._searches = deque(
            _Search(folder, Sampling(folder.cell, storage))
            for folder in ledger.search_folders(cells, store.root)
        )
        self._ready: deque[PlannedRun] = deque()
        self._waiting: list[PlannedRun] = []
        self._open_trials: dict[str, list[_OpenTrial]] = {}
        self._last_look = -math.inf

    @property
    def open(self) -> bool:
        """Whether a trial may still begin, a new one or one whose parent died."""
        return bool(self._ready or self._waiting or self._open_trials or self._searches)

    def take(self) -> PlannedRun | None:
        """The next run of a trial; None while other parents hold all that is left."""
        if not self._ready:
            self._look_again()
        while not self._ready and self._claim():
            pass
        return self._ready.popleft() if self._ready else None

    def started(self, planned: PlannedRun, slot: int) -> None:
        """A run got a slot."""

    def progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        """Report an epoch's metric to the pruner, and stop the trial if it says so."""
        for trial in self._open_trials.get(planned.key, []):
            self._add_epoch(trial, planned.key, epoch)
            curve = trial.curve
            # The last epoch is never pruned: its price is paid.
            last = planned.run.spec.recipe.epochs
            while trial.reported < len(curve):
                at, value = curve[trial.reported]
                trial.reported += 1
                wanted = trial.search.sampling.report(trial.claim.number, at, value)
                if wanted and at < last:
                    for run in trial.runs.values():
                        self.prune(run)

    def finished(self, planned: PlannedRun, record: Record) -> None:
        """Take a run's record; with the last one the trial is over."""
        for trial in self._open_trials.get(planned.key, [])[:]:
            self._finish_run(trial, planned.key, record)

    def _claim(self) -> bool:
        """Claim and begin a trial of the search whose turn it is; False if none has one left."""
        if not self._searches or time.monotonic() - self._last_look < _LOOK_S:
            return False
        for _ in range(len(self._searches)):
            search = self._searches[0]
            self._searches.rotate(-1)
            with search.folder.locked():
                claim = search.folder.claim()
                now = search.folder.ledger()
                resumed = claim is not None and claim.values is not None
                if claim and claim.values is None:
                    claim.keep_values(search.sampling.ask(claim.number, now.trials))
            if claim:
                self._begin(
                    _OpenTrial(search, claim, provenance.now()), now.trials, resumed=resumed
                )
                return True
            if now.closed:
                search.sampling.tell(now.trials)
                self._searches.remove(search)
        self._last_look = time.monotonic()
        return False

    def _begin(self, trial: _OpenTrial, over: list[Trial], *, resumed: bool) -> None:
        """Queue a trial's runs, but for those that the store has a usable record of."""
        cell, number = trial.search.cell, trial.claim.number
        known = {key for other in over for key in other.keys}
        expected_s = self._expected_s(over)
        assert trial.claim.values is not None
        for seed in cell.search.seeds:
            spec = cell.spec(trial.claim.values, seed, tested=False)
            run = Run(cell.entry, cell.dataset, spec, trial=number, repeat=cell.repeat)
            trial.curves[run.key] = {}
            trial.runs[run.key] = PlannedRun(
                run, "missing", "a trial", expected_s, None, source_digests.of_run(spec)
            )
        for planned in list(trial.runs.values()):
            sharing = self._open_trials.setdefault(planned.key, [])
            sharing.append(trial)
            if len(sharing) == 1:
                self._queue_or_reuse(planned, reuse=resumed or planned.key in known)

    def _queue_or_reuse(self, planned: PlannedRun, *, reuse: bool) -> None:
        """Queue a run, wait for another parent that is at it, or take the record that it has.

        A record of a pruned or lost run is taken (`reuse`) only if a trial of this search made it.
        """
        attempt = self.store.newest(planned.key)
        state, reason = judge(attempt, planned.sources)
        losses = self._losses(attempt) if attempt and reuse else 0
        planned = replace(planned, state=state, reason=reason, attempt=attempt, losses=losses)
        record = attempt.record if attempt else None
        if state == "running":
            self._waiting.append(planned)
        elif record and (
            state == "done"
            or (state == "failed" and not planned.lost)
            or (reuse and state == "missing" and record.status == "pruned")
            or (planned.lost and losses > RETRIES)
        ):
            self._replay_curve(planned.key, record)
            self.finished(planned, record)
        else:
            self._ready.append(planned)

    def _losses(self, newest: Attempt) -> int:
        """How many attempts at a run were lost with their workers, of whichever parent."""
        return sum(attempt.lost for attempt in [*self.store.earlier(newest), newest])

    def _look_again(self) -> None:
        """Check on the runs that other parents are at."""
        waiting, self._waiting = self._waiting, []
        for planned in waiting:
            self._queue_or_reuse(planned, reuse=True)

    def _replay_curve(self, key: str, record: Record) -> None:
        """Report a finished run's learning curve to the pruner, which can't stop it any more."""
        for trial in self._open_trials.get(key, []):
            for epoch in record.curve:
                self._add_epoch(trial, key, epoch)
            for at, value in trial.curve[trial.reported :]:
                trial.reported += 1
                trial.search.sampling.report(trial.claim.number, at, value)

    @staticmethod
    def _add_epoch(trial: _OpenTrial, key: str, epoch: Epoch) -> None:
        value = epoch.metrics.get(trial.search.cell.metric, math.nan)
        trial.curves[key][epoch.epoch] = value

    def _finish_run(self, trial: _OpenTrial, key: str, record: Record) -> None:
        for epoch in record.curve:
            self._add_epoch(trial, key, epoch)
        trial.records[key] = record
        if trial.records.keys() < trial.runs.keys():
            return
        for key in trial.runs:
            self._open_trials[key].remove(trial)
            if not self._open_trials[key]:
                del self._open_trials[key]
        self._finish_trial(trial)

    def _finish_trial(self, trial: _OpenTrial) -> None:
        """Write a trial's outcome, tell Optuna, and release the claim, in this order."""
        search, claim = trial.search, trial.claim
        with search.folder.locked():
            state, value, cost, reason = _outcome(trial)
            paid = self._attempts_paid(trial, search.folder.ledger().trials)
            outcome = Trial(
                number=claim.number,
                state=state,
                params=claim.values or {},
                value=value,
                cost=cost,
                curve=[(at, value) for at, value in trial.curve if math.isfinite(value)],
                runs=[f"{attempt.key}.{attempt.number}" for attempt in paid],
                keys=list(trial.runs),
                retries=self._retries(paid),
                device_h=math.fsum(map(self._device_h, paid)),
                sources=dict(next(iter(trial.runs.values())).sources),
                started=trial.started,
                ended=provenance.now(),
                reason=reason,
            )
            search.folder.write(outcome)
        search.sampling.tell([outcome])
        claim.release()

    def _attempts_paid(self, trial: _OpenTrial, over: Iterable[Trial]) -> list[Attempt]:
        """All attempts at its runs whose cost no other trial counts."""
        before = {run for other in over for run in other.runs}
        paid = []
        for key in trial.runs:
            newest = self.store.newest(key)
            assert newest is not None
            tried = [*self.store.earlier(newest), newest]
            paid += [one for one in tried if f"{key}.{one.number}" not in before]
        return paid

    @staticmethod
    def _retries(paid: list[Attempt]) -> int:
        """How often a run was retried after it was lost, by whichever parent."""
        newest = {attempt.key: attempt.number for attempt in paid}
        return sum(attempt.lost and attempt.number < newest[attempt.key] for attempt in paid)

    def _device_h(self, attempt: Attempt) -> float:
        """Device-hours of an attempt; without a record, those from its claim to its last change."""
        record = attempt.record
        if record and record.cost and not record.resumed_from:
            return record.cost.device_h
        # A resumed run's cost counts what earlier attempts left, which have a place of their own.
        if record and record.cost:
            took = datetime.fromisoformat(record.ended) - datetime.fromisoformat(record.started)
            return took.total_seconds() * record.provenance.devices / 3600
        signs = [path.stat().st_mtime for path in attempt.folder.iterdir()]
        began = (attempt.folder / "spec.json").stat().st_mtime
        devices = record.provenance.devices if record else self.devices
        return max(0.0, max(signs) - began) * devices / 3600

    def _expected_s(self, over: list[Trial]) -> float:
        spent = [3600 * t.device_h / len(t.keys) / self.devices for t in over if t.device_h]
        return fmean(spent) if spent else self.expected_s


def _outcome(trial: _OpenTrial) -> tuple[TrialState, float | None, float | None, str]:
    """State, value, cost and the reason for a value that is missing."""
    records = list(trial.records.values())
    failures = [record.failure for record in records if record.failure]
    if failures:
        return "failed", None, None, f"{failures[0].kind}: {failures[0].message}"
    curve = trial.curve
    if any(record.status == "pruned" for record in records):
        return "pruned", None, None, f"pruned after epoch {curve[-1][0] if curve else 0}"
    value = curve[-1][1] if curve else math.nan
    if not math.isfinite(value):
        return "failed", None, None, f"no finite {trial.search.cell.metric}"
    return "done", value, _cost(trial.search.cell.search.cost, trial.records), ""


def _cost(name: str | None, records: Mapping[str, Record]) -> float | None:
    """The second objective, as a mean over seeds."""
    costs = [record.cost for record in records.values() if record.cost]
    if name is None or not costs:
        return None
    if name == "parameters":
        return float(costs[0].parameters)
    return fmean(1e6 / cost.train_examples_per_s for cost in costs)
