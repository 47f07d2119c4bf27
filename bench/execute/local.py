"""The launcher on this host: each run is a fresh process from a warm fork server.

A process is forked ahead, so that a slot is not idle while the next run's process comes up; and a
run is over as soon as its process says so, not when its memory has been given back. Of a GPU, whose
memory the next one needs, only its end gives it back.
"""

import math
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from select import select
from typing import TYPE_CHECKING

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import devices, gpu_locks
from lightning_bench.bench.execute.job import (
    EXIT_CODES,
    WORKER,
    DeviceType,
    JobSpec,
    Verdict,
    run_worker,
)
from lightning_bench.bench.execute.launcher import Ending, Job
from lightning_bench.common.machine import worker_context
from lightning_bench.common.memory import oom_kills
from lightning_bench.common.processes import (
    adopt_orphans,
    end_descendants,
    ended_by_itself,
    exit_within,
    how_it_ended,
    preload,
    start_with_pipe,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    Pipe = Connection[JobSpec, Verdict | None]

_POLL_S = 0.2
#: A process that has given its verdict has so long to end; threads that a model started may not.
_EXIT_S = 3.0


@dataclass
class LocalJob:
    """A run's process, or one that waits for a run."""

    process: BaseProcess
    pipe: "Pipe"
    oom_kills: int = 0
    on_gpu: bool = False
    state: str = ""
    verdict: Verdict | None = field(default=None, init=False)
    _asked: bool = field(default=False, init=False)  # to stop

    def ended(self) -> Ending | None:
        """How the process ended, or None while it is at work."""
        self._listen()
        code = self.process.exitcode
        if self.verdict is not None:
            return None if self.on_gpu and code is None else self._as_told(self.verdict)
        if code is None:
            return None
        # Just begun, it has no answer to SIGTERM yet, and nothing to leave.
        if self._asked and code == -signal.SIGTERM:
            return Ending("stopped")
        how = how_it_ended(code)
        if code == -signal.SIGKILL and oom_kills() > self.oom_kills:
            return Ending("out-of-memory", f"{how}, as the kernel ran out of memory")
        return Ending("code" if ended_by_itself(code) else "ended", how)

    def stop(self) -> None:
        """Ask it to leave a checkpoint and end."""
        self._asked = True
        self.process.terminate()

    def kill(self) -> None:
        """End it now, and what it has started."""
        if self.process.pid is not None and self.process.exitcode is None:
            end_descendants(self.process.pid)
        self.process.kill()
        self.process.join()

    def awaited(self) -> "list[Connection[JobSpec, Verdict | None] | int]":
        """What to wait for: its next word, while there may be one, and its end."""
        return [self.process.sentinel, *([self.pipe] if self.verdict is None else [])]

    def _as_told(self, verdict: Verdict) -> Ending:
        if verdict == "taken":
            return Ending("taken")
        if verdict == "stopped":
            how = "was stopped by a SIGTERM that bench has not sent"
            return Ending("stopped") if self._asked else Ending("ended", how)
        how = "left no record" if verdict == "recorded" else "could not write to the store"
        return Ending("ended", how)

    def _listen(self) -> None:
        """Take its verdict, where it has given one; a None only wakes us."""
        try:
            while self.verdict is None and self.pipe.poll():
                self.verdict = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(_EXIT_S)
            if self.process.exitcode is None:  # it has closed what was not its own
                self.kill()


class Local:
    """Runs as many at a time as there are slots, each with its own devices.

    GPUs that another bench of this host uses are left to it, with the slots they would have been.
    """

    outlives = False

    def __init__(
        self,
        slots: int,
        device: DeviceType = "cpu",
        modules: Iterable[str] = (),
        *,
        devices_a_run: int = 1,
    ) -> None:
        self.slots = slots
        self._claim = gpu_locks.GpuClaim()
        if device == "cuda":
            self._claim = gpu_locks.claim(slots * devices_a_run, devices_a_run)
            there = len(devices.find(insist=True).cards)
            if len(self._claim.ids) < min(slots * devices_a_run, there):
                self.slots = len(self._claim.ids) // devices_a_run
            devices.prepare_environment()
        room = len(self._claim.ids) // devices_a_run
        #: How many runs use a GPU at a time.
        self._sharing = math.ceil(self.slots / room) if room else 1
        warnings = [self._claim.warning]
        if self._sharing > 1:
            shared = "1 GPU" if room * devices_a_run == 1 else f"{room * devices_a_run} GPUs"
            warnings.append(
                f"{self.slots} runs at a time share {shared}, and its memory: each counts "
                f"1/{self._sharing} of its device-hours"
            )
        self.warning = "\n".join(filter(None, warnings))
        self._context = worker_context()
        # The model files of the study, so that a fork has its libraries imported already.
        preload(self._context, [WORKER, *modules])
        self._spare: LocalJob | None = None
        self._ending: list[tuple[float, LocalJob]] = []  # with a verdict, since when

    def start(self, job_spec: JobSpec, slot: int) -> LocalJob:
        """Give an attempt to a process, with the devices of its slot."""
        gpus = devices.share(self._claim.ids, job_spec.devices, slot)
        job_spec = replace(job_spec, gpus=gpus, sharing=self._sharing)
        job, self._spare = self._spare or self._fork(), None
        try:
            job.pipe.send(job_spec)
        except OSError:  # somebody has killed the spare one
            job = self._fork()
            job.pipe.send(job_spec)
        job.oom_kills, job.on_gpu = oom_kills(), bool(gpus)
        return job

    def wait(self, jobs: Iterable[Job]) -> None:
        """Wait until a process has something to tell, or for a moment."""
        local = [job for job in jobs if isinstance(job, LocalJob)]
        if local and self._spare is None:
            self._spare = self._fork()
        connection.wait([what for job in local for what in job.awaited()], _POLL_S)
        known = {id(job) for _, job in self._ending}
        now = time.monotonic()
        self._ending += [(now, job) for job in local if job.verdict and id(job) not in known]
        self._end_lingering(now - 2 * _EXIT_S)

    def close(self) -> None:
        """Let the spare process and the GPUs go; no process of ours is left."""
        if self._spare is not None:
            self._spare.pipe.close()
            self._spare = None
        for since, job in self._ending:
            job.process.join(max(0.0, since + 2 * _EXIT_S - time.monotonic()))
        self._end_lingering(math.inf)
        self._claim.release()

    def _end_lingering(self, before: float) -> None:
        """Kill the processes that gave their verdict before a moment and have not ended yet."""
        for since, job in list(self._ending):
            if job.process.exitcode is not None or since < before:
                job.kill()
                self._ending.remove((since, job))

    def _fork(self) -> LocalJob:
        """A process that waits for a run; the fork server is started again once if it has died."""
        for _ in range(2):
            with suppress(EOFError, ConnectionError):
                return LocalJob(*start_with_pipe(self._context, serve))
        raise UserError(
            "the process that runs are forked from has ended twice while it imported torch: "
            "killed for memory perhaps, or see above"
        )


def serve(pipe: "Connection[Verdict | None, JobSpec]") -> None:
    """What a process does: wait for its job_spec, carry it out, and give its verdict."""
    # Ctrl-C is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    adopt_orphans()
    try:
        job_spec = pipe.recv()
    except EOFError:  # no run was left for it
        return
    if job_spec.spec.tested:
        verdict = run_worker(job_spec)
    else:  # somebody waits for a trial's epochs, to decide whether it goes on
        verdict = run_worker(job_spec, partial(_wake_parent, pipe))
    pipe.send(verdict)
    end_descendants()
    exit_within(_EXIT_S, EXIT_CODES[verdict])
    raise SystemExit(EXIT_CODES[verdict])


def _wake_parent(pipe: "Connection[Verdict | None, JobSpec]") -> None:
    """Wake the parent, unless it has not read the last ones: a run waits for nobody."""
    with suppress(OSError):
        if select([], [pipe], [], 0)[1]:
            pipe.send(None)
