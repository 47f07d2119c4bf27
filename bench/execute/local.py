"""The launcher on this host: each run is a fresh process from a warm fork server.

A process is forked ahead, so that a slot is not idle while the next run's process comes up; and a
run is over as soon as its process says so, not when its memory has been given back. Of a GPU, whose
memory the next one needs, only its end gives it back.
"""

import math
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from select import select
from typing import TYPE_CHECKING

from lightning_bench.bench.execute import devices, gpu_locks
from lightning_bench.bench.execute.job import (
    STOPPED,
    TAKEN,
    WORKER,
    DeviceType,
    JobSpec,
    run_worker,
)
from lightning_bench.bench.execute.launcher import Ending, Job
from lightning_bench.common.machine import worker_context
from lightning_bench.common.memory import oom_kills
from lightning_bench.common.processes import how_it_ended, start_with_pipe

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    Pipe = Connection[JobSpec, int | None]

_POLL_S = 0.2


@dataclass
class LocalJob:
    """A run's process, or one that waits for a run."""

    process: BaseProcess
    pipe: "Pipe"
    oom_kills: int = 0
    on_gpu: bool = False
    state: str = ""
    _code: int | None = field(default=None, init=False)

    def ended(self) -> Ending | None:
        """How the process ended, or None while it is at work."""
        code = self._ended_with()
        if code is None:
            return None
        if code == TAKEN:
            return Ending("taken")
        # Just begun, it has no answer to SIGTERM yet, and nothing to leave.
        if code in {STOPPED, -signal.SIGTERM}:
            return Ending("stopped")
        how = how_it_ended(code)
        if oom_kills() > self.oom_kills:
            return Ending("out-of-memory", f"{how}, as the kernel ran out of memory")
        return Ending("ended", how)

    def stop(self) -> None:
        """Ask it to leave a checkpoint and end."""
        self.process.terminate()

    def kill(self) -> None:
        """End it now."""
        self.process.kill()
        self.process.join()

    def awaited(self) -> "list[Connection[JobSpec, int | None] | int]":
        """What to wait for: its next word, while there may be one, and its end."""
        return [self.process.sentinel, *([self.pipe] if self._code is None else [])]

    def _ended_with(self) -> int | None:
        """What it said last, or else what became of it; a None only wakes us."""
        try:
            while self._code is None and self.pipe.poll():
                self._code = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
        if self._code is None or (self.on_gpu and self.process.exitcode is None):
            return self.process.exitcode
        return self._code


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
        self._context.set_forkserver_preload([WORKER, *modules])
        self._spare: LocalJob | None = None

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

    def close(self) -> None:
        """Let the spare process and the GPUs go."""
        if self._spare is not None:
            self._spare.pipe.close()
            self._spare = None
        self._claim.release()

    def _fork(self) -> LocalJob:
        return LocalJob(*start_with_pipe(self._context, serve))


def serve(pipe: "Connection[int | None, JobSpec]") -> None:
    """What a process does: wait for its job_spec, carry it out, and say with which code it ends."""
    # Ctrl-C is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        job_spec = pipe.recv()
    except EOFError:  # no run was left for it
        return
    code = 0
    try:
        if job_spec.spec.tested:
            run_worker(job_spec)
        else:  # somebody waits for a trial's epochs, to decide whether it goes on
            run_worker(job_spec, partial(_wake_parent, pipe))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    pipe.send(code)
    raise SystemExit(code)


def _wake_parent(pipe: "Connection[int | None, JobSpec]") -> None:
    """Wake the parent, unless it has not read the last ones: a run waits for nobody."""
    with suppress(OSError):
        if select([], [pipe], [], 0)[1]:
            pipe.send(None)
