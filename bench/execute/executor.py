"""Executor: has a launcher carry out runs, tries lost ones again, and ends each in a record."""

import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Protocol

from lightning_bench.bench.execute.job import Execution, JobSpec
from lightning_bench.bench.execute.launcher import Ending, Job, Launcher
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.store import provenance, stalls
from lightning_bench.bench.store.attempt_files import log_name
from lightning_bench.bench.store.rank_failures import first_failure
from lightning_bench.bench.store.record import Epoch, Failure, FailureClass, Record
from lightning_bench.bench.store.stalls import StallWatch
from lightning_bench.bench.store.store import Attempt, AttemptTaken, Damaged, Store, read_record
from lightning_bench.common.files import lock_at_once, open_regular
from lightning_bench.common.messages import duration

#: How often a run that is lost is tried again.
RETRIES = 2
_CHECK_S = 0.5
#: Heartbeats are looked at no more often than this.
_LOOK_S = 1.0
#: The lock of a run whose process has ended is free within this time.
_RELEASE_S = 10.0


class RunSource(Protocol):
    """A source of runs: a plan's queue, or a search that makes them as it goes."""

    @property
    def open(self) -> bool:
        """Whether `take` may still give a run, now or later."""

    def take(self) -> PlannedRun | None:
        """The next run, or None if there is none just now."""


class RunList:
    """A source of runs that are known from the start."""

    def __init__(self, planned: Iterable[PlannedRun]) -> None:
        self._left = deque(planned)

    @property
    def open(self) -> bool:
        """Whether runs are left."""
        return bool(self._left)

    def take(self) -> PlannedRun | None:
        """The next one."""
        return self._left.popleft() if self._left else None


class Listener:
    """Callbacks of the executor, for a display or a search; each overrides what it needs."""

    def started(self, planned: PlannedRun, slot: int) -> None:
        """A run got a slot."""

    def waits(self, planned: PlannedRun, state: str) -> None:
        """A run waits in a queue for the reason given; with none, it has begun."""

    def progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        """A run finished an epoch; told once an epoch, however often the run is tried."""

    def finished(self, planned: PlannedRun, record: Record) -> None:
        """A run left its last record."""

    def lost(self, planned: PlannedRun, record: Record) -> None:
        """An attempt failed for no reason of the run's own, and the run is tried again."""

    def stopped(self, planned: PlannedRun) -> None:
        """A run ended without a record, as it was asked to; what it reached is kept."""

    def run_by_other(self, planned: PlannedRun) -> None:
        """Another process runs it; its record is waited for."""

    def stopping(self, running: int, *, left: bool) -> None:
        """The executor was asked to stop: runs under way are stopped, or left to their engine."""

    def tick(self) -> None:
        """Some time has passed."""


@dataclass
class _ActiveRun:
    """A run under way, in its slot."""

    planned: PlannedRun
    job_spec: JobSpec
    slot: int
    job: Job
    attempt: int  # a cluster may have begun further ones
    read: int = 0  # bytes of the attempt's curve that were looked at
    state: str = ""
    prune: bool = False
    began: float | None = None  # by this process's clock
    watch: StallWatch = field(default_factory=StallWatch)


@dataclass
class Executor:
    """Runs what a source of runs hands out, all of it in the same way."""

    store: Store
    launcher: Launcher
    execution: Execution
    listeners: Sequence[Listener]
    retries: int = RETRIES
    _active: list[_ActiveRun] = field(default_factory=list, init=False)
    _run_by_others: list[PlannedRun] = field(default_factory=list, init=False)
    _again: deque[PlannedRun] = field(default_factory=deque, init=False)
    _losses: Counter[str] = field(default_factory=Counter, init=False)
    _epochs: Counter[str] = field(default_factory=Counter, init=False)
    _checked: float = field(default=0.0, init=False)
    _looked: float = field(default=0.0, init=False)
    stopping: bool = field(default=False, init=False)

    def run(self, work: RunSource, running: Iterable[PlannedRun] = ()) -> None:
        """Run all of it, then wait for those that other processes run, until all have records.

        Raises KeyboardInterrupt once everything has stopped after `stop`. On any exception runs
        are ended before it goes on, unless the launcher's jobs go on by themselves.
        """
        self._run_by_others += running
        try:
            while self._again or self._active or self._run_by_others or work.open:
                if self.stopping:
                    self._stop_all()
                    raise KeyboardInterrupt
                self._fill(work)
                self._poll()
                self._check_others()
        finally:
            if not self.launcher.outlives:
                for active in self._active:
                    active.job.kill()
            self._active.clear()
            self.launcher.close()

    @property
    def active(self) -> bool:
        """Whether runs are under way."""
        return bool(self._active)

    def stop(self) -> None:
        """Take up no more runs, ask those under way to leave a checkpoint, and end.

        Only sets a mark, so that a signal's handler may call it.
        """
        self.stopping = True

    def prune(self, planned: PlannedRun) -> None:
        """Ask a run under way to leave a record of what it has reached."""
        for active in self._active:
            if active.planned.key == planned.key:
                active.prune = True

    def _stop_all(self) -> None:
        """Ask the runs under way to stop, and wait for them."""
        for listener in self.listeners:
            listener.stopping(len(self._active), left=self.launcher.outlives)
        if self.launcher.outlives:
            return
        for active in self._active:
            active.job.stop()
        while self._active:
            self._poll()

    def _fill(self, work: RunSource) -> None:
        """Give free slots to the next runs."""
        taken = {active.slot for active in self._active}
        for slot in range(self.launcher.slots):
            if slot in taken:
                continue
            planned = self._again.popleft() if self._again else work.take()
            if planned is None:
                return
            self._start(planned, slot)

    def _start(self, planned: PlannedRun, slot: int) -> None:
        if planned.attempt and planned.attempt.state == "damaged":
            self.store.set_aside(planned.attempt)
        job_spec = JobSpec(
            store=self.store.root.resolve(),
            spec=planned.run.spec,
            attempt=planned.next_attempt,
            gpus=(),
            sources=planned.sources,
            command=provenance.command_line(),
            keep_weights=planned.keep_weights,
            start=planned.start,
            **asdict(self.execution),
        )
        job = self.launcher.start(job_spec, slot)
        self._active.append(_ActiveRun(planned, job_spec, slot, job, job_spec.attempt))
        for listener in self.listeners:
            listener.started(planned, slot)

    def _poll(self) -> None:
        """Wait a moment, pass on the epochs of the runs under way, and finish what has ended."""
        self.launcher.wait([active.job for active in self._active])
        for active in list(self._active):
            ending = active.job.ended()
            if active.state != active.job.state:
                active.state = active.job.state
                for listener in self.listeners:
                    listener.waits(active.planned, active.state)
            self._read_curve(active)
            if ending:
                self._active.remove(active)
                self._finish(active, ending)
        self._end_overdue()
        for listener in self.listeners:
            listener.tick()

    def _end_overdue(self) -> None:
        """End the runs that show no sign of life, or take longer than they may."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        limit_s = self.execution.time_limit_s
        for active in list(self._active):
            if active.job.state:
                continue  # it waits in a queue
            active.began = active.began or now
            folder = self.store.folder(active.planned.key, active.attempt)
            failure = None
            if limit_s is not None and now - active.began > limit_s:
                words = f"took longer than the time limit of {duration(limit_s)}"
                log = str((folder / log_name(0)).relative_to(self.store.root))
                failure = Failure(kind="time-limit", message=words, log=log)
            elif active.watch.stalled(folder):
                failure = stalls.failure(folder, self.store.root)
            if failure:
                active.job.kill()
                self._active.remove(active)
                self._finish(active, Ending("ended"), failure)

    def _read_curve(self, active: _ActiveRun) -> None:
        """Pass on the epochs that a run has written since the last time, and send it requests."""
        if self.launcher.outlives:  # a cluster begins further attempts by itself
            number = self.store.latest(active.planned.key, active.attempt)
            if number > active.attempt:
                active.attempt, active.read = number, 0
        folder = self.store.folder(active.planned.key, active.attempt)
        try:
            with open_regular(folder / "curve.jsonl") as stream:
                stream.seek(active.read)
                lines = stream.read().splitlines(keepends=True)
        except OSError:  # it is not there yet, or the run has spoilt it: its record has the curve
            lines = []
        for line in lines:
            if line.endswith(b"\n"):
                active.read += len(line)
                with suppress(ValueError):
                    self._progressed(active.planned, Epoch.model_validate_json(line))
        if active.prune and folder.is_dir():
            self.store.request(folder, "prune")
            active.prune = False

    def _progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        # A run that is tried again, or goes on, tells of some epochs a second time.
        if epoch.epoch > self._epochs[planned.key]:
            self._epochs[planned.key] = epoch.epoch
            for listener in self.listeners:
                listener.progressed(planned, epoch)

    def _finish(self, active: _ActiveRun, ending: Ending, failure: Failure | None = None) -> None:
        """Read the record of a run that ended, or write one if it left none; retry it if lost."""
        planned = active.planned
        folder = self.store.folder(planned.key, active.attempt)
        if ending.kind == "taken":
            self._left_to_others(planned)
            return
        try:
            record = read_record(folder / "record.json")
        except (OSError, Damaged):
            if ending.kind == "stopped" or self.stopping:
                for listener in self.listeners:
                    listener.stopped(planned)
                return
            lost = self._lost(active, folder, ending, failure)
            if lost is None:
                self._left_to_others(planned)
                return
            record = lost
        self._settle(planned, active.attempt, record)

    def _left_to_others(self, planned: PlannedRun) -> None:
        """Wait for the record of another process that has the attempt."""
        self._run_by_others.append(planned)
        for listener in self.listeners:
            listener.run_by_other(planned)

    def _settle(self, planned: PlannedRun, number: int, record: Record) -> None:
        """Try a lost run again, if it was not too often; any other record is final."""
        folder = self.store.folder(planned.key, number)
        attempt = Attempt(planned.key, number, folder, "recorded", record)
        losses = planned.losses + self._losses[planned.key]
        if attempt.lost and losses < self.retries and not self.stopping:
            self._losses[planned.key] += 1
            self._again.append(replace(planned, attempt=attempt, state="missing"))
            for listener in self.listeners:
                listener.lost(planned, record)
        else:
            for listener in self.listeners:
                listener.finished(planned, record)

    def _lost(
        self, active: _ActiveRun, folder: Path, ending: Ending, failure: Failure | None
    ) -> Record | None:
        """The record of a run whose processes ended without one; None if another has the attempt.

        Written under the attempt's lock alone, after one more look for a record.
        """
        if not folder.is_dir():
            # It died before it could claim its attempt.
            claim = self.store.claim(active.job_spec.spec, active.attempt)
            with suppress(AttemptTaken), claim:
                return self._write_failure(active, folder, ending, failure)
        deadline = time.monotonic() + _RELEASE_S
        while (lock := lock_at_once(folder / "lock")) is None:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
        try:
            return read_record(folder / "record.json")
        except (OSError, Damaged):
            return self._write_failure(active, folder, ending, failure)
        finally:
            os.close(lock)

    def _write_failure(
        self, active: _ActiveRun, folder: Path, ending: Ending, failure: Failure | None
    ) -> Record:
        """Write the record of a run that failed without a word, into an attempt that is held."""
        kind: FailureClass = "infrastructure"
        if ending.kind == "out-of-memory" or ending.kind == "code":
            kind = ending.kind
        log = str((folder / log_name(0)).relative_to(self.store.root))
        without_a_word = Failure(kind=kind, message=f"the run's process {ending.how}", log=log)
        failure = (
            failure
            or first_failure(folder)  # of a rank that could still tell
            or stalls.watchdog_failure(folder, self.store.root)
            or without_a_word
        )
        moment = provenance.now()
        record = Record(
            key=active.planned.key,
            attempt=active.attempt,
            status="failed",
            spec=active.job_spec.spec,
            started=moment,
            ended=moment,
            provenance=active.job_spec.provenance(device=self.execution.device, environment=None),
            failure=failure,
        )
        self.store.write_record(folder, record)
        return record

    def _check_others(self) -> None:
        """Check the runs of other processes: some have left a record, some have died."""
        now = time.monotonic()
        if not self._run_by_others or now - self._checked < _CHECK_S:
            return
        self._checked = now
        attempts = self.store.scan(planned.key for planned in self._run_by_others)
        waiting = []
        for planned in self._run_by_others:
            attempt = attempts[planned.key]
            awaited = planned.next_attempt - (planned.state == "running")
            if attempt.state == "running":
                waiting.append(planned)
            elif attempt.record and attempt.number >= awaited:
                self._settle(planned, attempt.number, attempt.record)
            else:
                self._again.append(replace(planned, attempt=attempt, state="missing"))
        self._run_by_others = waiting
