"""This host: each run is a fresh process from a warm fork server."""

import signal
from collections.abc import Iterable
from dataclasses import dataclass, replace
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from bench.launch import devices
from bench.launch.launcher import Ending, Job
from bench.order import STOPPED, TAKEN, Device, Order, carry_out

_POLL_S = 0.2


@dataclass
class LocalJob:
    """A run's process."""

    process: BaseProcess
    oom_kills: int
    state: str = ""

    def ended(self) -> Ending | None:
        """How the process ended, or None while it lives."""
        code = self.process.exitcode
        if code is None:
            return None
        if code == TAKEN:
            return Ending("taken")
        if code == STOPPED:
            return Ending("stopped")
        how = f"exited with code {code}"
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        if _oom_kills() > self.oom_kills:
            return Ending("out-of-memory", f"{how}, as the kernel ran out of memory")
        return Ending("ended", how)

    def stop(self) -> None:
        """Ask it to leave a checkpoint and end."""
        self.process.terminate()

    def kill(self) -> None:
        """End it now."""
        self.process.kill()
        self.process.join()


class Local:
    """Runs as many at a time as there are slots, each with its own devices."""

    outlives = False

    def __init__(self, slots: int, device: Device = "auto", modules: Iterable[str] = ()) -> None:
        self.slots = slots
        self._gpus = [] if device == "cpu" else devices.gpus()
        self._context = get_context("forkserver")
        # The model files of the study, so that a fork has its libraries imported already.
        self._context.set_forkserver_preload(["bench.worker", *modules])

    def start(self, order: Order, slot: int) -> LocalJob:
        """Fork a process for an attempt, with the devices of its slot."""
        order = replace(order, gpus=devices.share(self._gpus, order.devices, slot))
        process = self._context.Process(target=carry_out, args=(order,), name=order.spec.key)
        process.start()
        return LocalJob(process, _oom_kills())

    def wait(self, jobs: Iterable[Job]) -> None:
        """Wait until a process ends, or for a moment."""
        sentinels = [job.process.sentinel for job in jobs if isinstance(job, LocalJob)]
        connection.wait(sentinels, _POLL_S)


def _oom_kills() -> int:
    """How many processes the kernel has killed for memory since it started."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
