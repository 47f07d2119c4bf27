"""Executor: has a launcher carry out what work there is, and makes every run end in a record."""

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
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.record import Epoch, Failure, FailureClass, Record
from lightning_bench.bench.store.store import Attempt, AttemptTaken, Damaged, Store, read_record

#: How often a run that is lost is tried again.
RETRIES = 2
_LOOK_S = 0.5


class Work(Protocol):
    """What hands out runs: a plan's list, or a search that thinks of them as it goes."""

    @property
    def open(self) -> bool:
        """Whether `take` may still give a run, now or later."""

    def take(self) -> PlannedRun | None:
        """The next run, or None if there is none just now."""


class Listed:
    """Work that is known from the start."""

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
    """Who is told what happens: a display, a search, a test; each answers to what it likes."""

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

    def elsewhere(self, planned: PlannedRun) -> None:
        """Another process runs it; its record is waited for."""

    def stopping(self, running: int, *, left: bool) -> None:
        """The executor was asked to stop: runs under way are stopped, or left to their engine."""

    def tick(self) -> None:
        """Some time has passed."""


@dataclass
class _Flight:
    """A run in its slot."""

    planned: PlannedRun
    job_spec: JobSpec
    slot: int
    job: Job
    attempt: int  # a cluster may have begun further ones
    read: int = 0  # bytes of the attempt's curve that were looked at
    state: str = ""
    prune: bool = False


@dataclass
class Executor:
    """Runs what `work` hands out, all of it in the same way."""

    store: Store
    launcher: Launcher
    execution: Execution
    listeners: Sequence[Listener]
    retries: int = RETRIES
    _flights: list[_Flight] = field(default_factory=list, init=False)
    _elsewhere: list[PlannedRun] = field(default_factory=list, init=False)
    _again: deque[PlannedRun] = field(default_factory=deque, init=False)
    _losses: Counter[str] = field(default_factory=Counter, init=False)
    _epochs: Counter[str] = field(default_factory=Counter, init=False)
    _looked: float = field(default=0.0, init=False)
    stopping: bool = field(default=False, init=False)

    def run(self, work: Work, running: Iterable[PlannedRun] = ()) -> None:
        """Run all of it, then wait for those that other processes run, until all have records.

        Raises KeyboardInterrupt once everything has stopped after `stop`. On any exception runs
        are ended before it goes on, unless the launcher's jobs go on by themselves.
        """
        self._elsewhere += running
        try:
            while self._again or self._flights or self._elsewhere or work.open:
                if self.stopping:
                    self._wind_down()
                    raise KeyboardInterrupt
                self._fill(work)
                self._attend()
                self._look()
        finally:
            if not self.launcher.outlives:
                for flight in self._flights:
                    flight.job.kill()
            self._flights.clear()
            self.launcher.close()

    def stop(self) -> None:
        """Take up no more runs, ask those under way to leave a checkpoint, and end.

        Only sets a mark, so that a signal's handler may call it.
        """
        self.stopping = True

    def prune(self, planned: PlannedRun) -> None:
        """Ask a run under way to leave a record of what it has reached."""
        for flight in self._flights:
            if flight.planned.key == planned.key:
                flight.prune = True

    def _wind_down(self) -> None:
        """Ask the runs under way to stop, and wait for them."""
        for listener in self.listeners:
            listener.stopping(len(self._flights), left=self.launcher.outlives)
        if self.launcher.outlives:
            return
        for flight in self._flights:
            flight.job.stop()
        while self._flights:
            self._attend()

    def _fill(self, work: Work) -> None:
        """Give free slots to the next runs."""
        taken = {flight.slot for flight in self._flights}
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
        self._flights.append(_Flight(planned, job_spec, slot, job, job_spec.attempt))
        for listener in self.listeners:
            listener.started(planned, slot)

    def _attend(self) -> None:
        """Wait a moment, pass on what the runs under way have to tell, and take what has ended."""
        self.launcher.wait([flight.job for flight in self._flights])
        for flight in list(self._flights):
            ending = flight.job.ended()
            if flight.state != flight.job.state:
                flight.state = flight.job.state
                for listener in self.listeners:
                    listener.waits(flight.planned, flight.state)
            self._hear(flight)
            if ending:
                self._flights.remove(flight)
                self._take(flight, ending)
        for listener in self.listeners:
            listener.tick()

    def _hear(self, flight: _Flight) -> None:
        """Pass on the epochs that a run has written since the last look, and ask what is asked."""
        number = self.store.latest(flight.planned.key, flight.attempt)
        if number > flight.attempt:
            flight.attempt, flight.read = number, 0
        folder = self.store.folder(flight.planned.key, flight.attempt)
        try:
            with (folder / "curve.jsonl").open("rb") as stream:
                stream.seek(flight.read)
                lines = stream.read().splitlines(keepends=True)
        except FileNotFoundError:
            lines = []
        for line in lines:
            if line.endswith(b"\n"):
                flight.read += len(line)
                self._progressed(flight.planned, Epoch.model_validate_json(line))
        if flight.prune and folder.is_dir():
            self.store.request(folder, "prune")
            flight.prune = False

    def _progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        # A run that is tried again, or goes on, tells of some epochs a second time.
        if epoch.epoch > self._epochs[planned.key]:
            self._epochs[planned.key] = epoch.epoch
            for listener in self.listeners:
                listener.progressed(planned, epoch)

    def _take(self, flight: _Flight, ending: Ending) -> None:
        """Take a run's record, or write one for it if it died without; try it again if lost."""
        planned = flight.planned
        folder = self.store.folder(planned.key, flight.attempt)
        if ending.kind == "taken":
            self._elsewhere.append(planned)
            for listener in self.listeners:
                listener.elsewhere(planned)
            return
        try:
            record = read_record(folder / "record.json")
        except (OSError, Damaged):
            if ending.kind == "stopped" or self.stopping:
                for listener in self.listeners:
                    listener.stopped(planned)
                return
            record = self._lost(flight, folder, ending)
        self._settle(planned, flight.attempt, record)

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

    def _lost(self, flight: _Flight, folder: Path, ending: Ending) -> Record:
        """The record of a run whose processes ended without one."""
        if not folder.is_dir():
            # It died before it could claim its attempt.
            claim = self.store.claim(flight.job_spec.spec, flight.attempt)
            with suppress(AttemptTaken), claim:
                pass
        kind: FailureClass = "out-of-memory" if ending.kind == "out-of-memory" else "infrastructure"
        moment = provenance.now()
        log = (folder / "log.txt").relative_to(self.store.root)
        record = Record(
            key=flight.planned.key,
            attempt=flight.attempt,
            status="failed",
            spec=flight.job_spec.spec,
            started=moment,
            ended=moment,
            provenance=flight.job_spec.provenance(device=self.execution.device, environment=None),
            failure=Failure(kind=kind, message=f"the run's process {ending.how}", log=str(log)),
        )
        self.store.write_record(folder, record)
        return record

    def _look(self) -> None:
        """See which of the runs elsewhere have left a record, and which have died and are ours."""
        now = time.monotonic()
        if not self._elsewhere or now - self._looked < _LOOK_S:
            return
        self._looked = now
        attempts = self.store.scan(planned.key for planned in self._elsewhere)
        waiting = []
        for planned in self._elsewhere:
            attempt = attempts[planned.key]
            awaited = planned.next_attempt - (planned.state == "running")
            if attempt.state == "running":
                waiting.append(planned)
            elif attempt.record and attempt.number >= awaited:
                self._settle(planned, attempt.number, attempt.record)
            else:
                self._again.append(replace(planned, attempt=attempt, state="missing"))
        self._elsewhere = waiting
