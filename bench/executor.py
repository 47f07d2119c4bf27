"""Executor: runs what a plan lacks, each run in a fresh process from a warm fork server."""

import os
import signal
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from bench import provenance
from bench.order import TAKEN, Device, Order, carry_out
from bench.plan import PlannedRun
from bench.record import Epoch, Failure, FailureClass, Record
from bench.store import Damaged, Store, Taken, read_record

_POLL_S = 0.2
_PATIENCE_S = 3.0


class Listener(Protocol):
    """Who is told what happens: a display, or a test."""

    def started(self, planned: PlannedRun, slot: int) -> None:
        """A run got a slot."""

    def progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        """A run finished an epoch."""

    def finished(self, planned: PlannedRun, record: Record) -> None:
        """A run left a record."""

    def elsewhere(self, planned: PlannedRun) -> None:
        """Another process runs it; its record is waited for."""

    def tick(self) -> None:
        """Some time has passed."""


@dataclass
class _Job:
    """A run in its slot."""

    planned: PlannedRun
    order: Order
    slot: int
    process: BaseProcess
    folder: Path
    oom_kills: int
    read: int = 0  # bytes of the curve that the listener has heard of


@dataclass
class Executor:
    """Runs `jobs` runs at a time on this machine, all of them with the same settings."""

    store: Store
    jobs: int
    threads: int
    device: Device
    listeners: Sequence[Listener]
    modules: Iterable[str] = ()
    _running: list[_Job] = field(default_factory=list, init=False)

    def run(self, planned: Iterable[PlannedRun], running: Iterable[PlannedRun] = ()) -> None:
        """Run these, then wait for those that other processes run; return when all have records.

        On any exception, Ctrl-C among them, the workers are stopped before it goes on.
        """
        queue, elsewhere = deque(planned), list(running)
        self._gpus = gpus() if self.device != "cpu" else []
        self._context = get_context("forkserver")
        # The model files of the study, so that a fork has its libraries imported already.
        self._context.set_forkserver_preload(["bench.worker", *self.modules])
        try:
            while queue or self._running or elsewhere:
                self._fill(queue)
                done = connection.wait([job.process.sentinel for job in self._running], _POLL_S)
                for job in list(self._running):
                    self._hear(job)
                    if job.process.sentinel in done:
                        self._running.remove(job)
                        if not self._finish(job):
                            elsewhere.append(job.planned)
                            for listener in self.listeners:
                                listener.elsewhere(job.planned)
                if elsewhere and not queue and not self._running:
                    queue, elsewhere = self._look(elsewhere)
                for listener in self.listeners:
                    listener.tick()
        finally:
            self._stop()

    def _fill(self, queue: deque[PlannedRun]) -> None:
        """Give free slots to the next runs."""
        taken = {job.slot for job in self._running}
        for slot in sorted(set(range(self.jobs)) - taken):
            if not queue:
                return
            planned = queue.popleft()
            self._set_aside_damaged(planned)
            order = Order(
                store=self.store.root,
                spec=planned.run.spec,
                attempt=planned.next_attempt,
                device=self.device,
                gpus=(self._gpus[slot % len(self._gpus)],) if self._gpus else (),
                threads=self.threads,
                sources=planned.sources,
                command=provenance.command_line(),
            )
            process = self._context.Process(target=carry_out, args=(order,), name=planned.key)
            process.start()
            folder = self.store.folder(planned.key, planned.next_attempt)
            self._running.append(_Job(planned, order, slot, process, folder, _oom_kills()))
            for listener in self.listeners:
                listener.started(planned, slot)

    def _set_aside_damaged(self, planned: PlannedRun) -> None:
        if planned.attempt and planned.attempt.state == "damaged":
            self.store.set_aside(planned.attempt)

    def _hear(self, job: _Job) -> None:
        """Pass on the epochs that a run has written since the last look."""
        try:
            with (job.folder / "curve.jsonl").open("rb") as stream:
                stream.seek(job.read)
                lines = stream.read().splitlines(keepends=True)
        except FileNotFoundError:
            return
        for line in lines:
            if line.endswith(b"\n"):
                job.read += len(line)
                epoch = Epoch.model_validate_json(line)
                for listener in self.listeners:
                    listener.progressed(job.planned, epoch)

    def _finish(self, job: _Job) -> bool:
        """Take a worker's record, or write one for it if it died without; False if it was taken."""
        job.process.join()
        code = job.process.exitcode
        job.process.close()
        if code == TAKEN:
            return False
        try:
            record = read_record(job.folder / "record.json")
        except (OSError, Damaged):
            record = self._lost(job, code)
        self._finished(job.planned, record)
        return True

    def _lost(self, job: _Job, code: int | None) -> Record:
        """The record of a run whose process ended without one."""
        kind: FailureClass = "infrastructure"
        how = f"exited with code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        if _oom_kills() > job.oom_kills:
            kind, how = "out-of-memory", f"{how}, as the kernel ran out of memory"
        if not job.folder.is_dir():
            # It died before it could claim its attempt.
            claim = self.store.claim(job.order.spec, job.order.attempt)
            with suppress(Taken), claim:
                pass
        moment = provenance.now()
        log = (job.folder / "log.txt").relative_to(self.store.root)
        record = Record(
            key=job.planned.key,
            attempt=job.order.attempt,
            status="failed",
            spec=job.order.spec,
            started=moment,
            ended=moment,
            provenance=provenance.of(job.order, device=self.device, environment=None),
            failure=Failure(kind=kind, message=f"the run's process {how}", log=str(log)),
        )
        self.store.write_record(job.folder, record)
        return record

    def _look(self, elsewhere: list[PlannedRun]) -> tuple[deque[PlannedRun], list[PlannedRun]]:
        """Which of the runs elsewhere have died and are ours now, and which still run."""
        time.sleep(_POLL_S)
        attempts = self.store.scan(planned.key for planned in elsewhere)
        orphaned: deque[PlannedRun] = deque()
        waiting = []
        for planned in elsewhere:
            attempt = attempts[planned.key]
            awaited = planned.next_attempt - (planned.state == "running")
            if attempt.state == "running":
                waiting.append(planned)
            elif attempt.record and attempt.number >= awaited:
                self._finished(planned, attempt.record)
            else:
                orphaned.append(replace(planned, attempt=attempt, state="missing"))
        return orphaned, waiting

    def _finished(self, planned: PlannedRun, record: Record) -> None:
        for listener in self.listeners:
            listener.finished(planned, record)

    def _stop(self) -> None:
        """End whatever still runs: politely, then not."""
        for job in self._running:
            job.process.terminate()
        deadline = time.monotonic() + _PATIENCE_S
        for job in self._running:
            job.process.join(max(0.0, deadline - time.monotonic()))
            if job.process.is_alive():
                job.process.kill()
                job.process.join()
        self._running.clear()


def gpus() -> list[str]:
    """The GPUs that this process may use, counted without torch."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [gpu for gpu in named.split(",") if gpu]
    listed = Path("/proc/driver/nvidia/gpus")
    return [str(i) for i in range(len(list(listed.iterdir())))] if listed.is_dir() else []


def _oom_kills() -> int:
    """How many processes the kernel has killed for memory since it started."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
