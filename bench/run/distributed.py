"""Ranks: the processes that train one run together, how they meet, and how one's end is all's.

On one host the worker is rank 0 and starts the others through its own fork server (`Siblings`);
a cluster starts all of them at once, and each finds out who it is (`Rank.of_slurm`).
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import connection, forkserver, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import Any

import torch
import torch.distributed as dist
from pytorch_lightning.plugins.environments import LightningEnvironment, SLURMEnvironment  # type: ignore[attr-defined]

from lightning_bench.bench.execute.job import STOPPED
from lightning_bench.bench.store.record import Failure
from lightning_bench.common.files import write_atomically
from lightning_bench.common.processes import how_it_ended

#: A rank that waits longer than this for the others gives up.
_TIMEOUT = timedelta(minutes=10)
#: How long to wait for a failed rank to say what happened to it.
PATIENCE_S = 5.0


@dataclass(frozen=True)
class Rank:
    """One of the `world` processes of a run: the `local` one of its host, of so many `nodes`.

    They meet where rank 0 listens; a run of one process meets nobody.
    """

    index: int = 0
    world: int = 1
    local: int = 0
    nodes: int = 1
    address: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def of_slurm(cls) -> "Rank":
        """Who this process is in the SLURM step that started it, as Lightning reads it."""
        slurm = SLURMEnvironment(auto_requeue=False)
        world = slurm.world_size()
        return cls(
            index=slurm.global_rank(),
            world=world,
            local=slurm.local_rank(),
            nodes=int(os.environ.get("SLURM_NNODES", "1")),
            address=slurm.main_address if world > 1 else "",
            port=slurm.main_port if world > 1 else 0,
        )

    @property
    def first(self) -> bool:
        """Whether it is the one that claims, reports and writes the record."""
        return self.index == 0

    @contextmanager
    def group(self, device: str, start: Callable[["Rank"], None] | None = None) -> Iterator[None]:
        """Meet the other ranks, and part from them properly at the end.

        Rank 0 may listen on any port; `start` then hears where, to start the others.
        """
        if self.world == 1:
            yield
            return
        store = dist.TCPStore(  # type: ignore[attr-defined]
            self.address,
            self.port,
            self.world,
            is_master=self.first,
            timeout=_TIMEOUT,
            wait_for_workers=False,
        )
        if start is not None:
            start(replace(self, port=store.port))
        if device == "cuda":
            torch.cuda.set_device(self.local)
        dist.init_process_group(
            "nccl" if device == "cuda" else "gloo",
            store=store,
            rank=self.index,
            world_size=self.world,
            timeout=_TIMEOUT,
        )
        try:
            yield
            # Whoever closed its connections first would look dead to the others.
            dist.barrier()
        finally:
            dist.destroy_process_group()


#: The rank of a run of one process.
ALONE = Rank()


class Environment(LightningEnvironment):
    """Tells Lightning who this process is; all of them run already and have met."""

    def __init__(self, rank: Rank) -> None:
        super().__init__()
        self._rank = rank

    @property
    def creates_processes_externally(self) -> bool:
        """Lightning starts nobody."""
        return True

    def world_size(self) -> int:
        """All processes."""
        return self._rank.world

    def global_rank(self) -> int:
        """This one of all."""
        return self._rank.index

    def local_rank(self) -> int:
        """This one of its host's."""
        return self._rank.local

    def node_rank(self) -> int:
        """This host of all."""
        return self._rank.index // (self._rank.world // self._rank.nodes)


class Siblings:
    """The other ranks of a run on this host, started by rank 0 through its fork server."""

    def __init__(self, main: Callable[[Rank], None]) -> None:
        """Nothing starts yet; each rank is to call `main` with who it is."""
        self._main = main
        self._processes: list[BaseProcess] = []
        self.parted = False  # to be set when all have done their part

    def start(self, first: Rank) -> None:
        """Start everybody but rank 0."""
        context = get_context("forkserver")
        context.set_forkserver_preload(["lightning_bench.bench.run.worker"])
        _reuse_server()
        for index in range(1, first.world):
            rank = replace(first, index=index, local=index)
            process = context.Process(target=self._main, args=(rank,), name=f"rank {index}")
            process.start()
            self._processes.append(process)

    def watch(self, lost: Callable[[], None]) -> None:
        """Call `lost`, in a thread, where one has died and rank 0 still has not noticed."""
        sentinels = [process.sentinel for process in self._processes]

        def wait() -> None:
            connection.wait(sentinels)
            time.sleep(2 * PATIENCE_S)
            # One that was stopped left this one to write the checkpoint, however long that takes.
            if not self.parted and not any(p.exitcode == STOPPED for p in self._processes):
                lost()

        Thread(target=wait, daemon=True).start()

    def died(self) -> tuple[int, str] | None:
        """The rank that ended, and how, without having been let go."""
        for index, process in enumerate(self._processes, start=1):
            code = process.exitcode
            if code is not None:
                return index, how_it_ended(code)
        return None

    def end(self) -> None:
        """Wait for them, not for ever."""
        deadline = time.monotonic() + PATIENCE_S
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _reuse_server() -> None:
    """Let a process that a fork server started start others by the same server.

    As `ForkServer.ensure_running` means it to be, but it only looks for a server that it started
    itself, and would start another one, which takes seconds to import torch.
    """
    server: Any = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_forkserver_alive_fd", None) is not None and not server._forkserver_pid:
        server.ensure_running = lambda: None


def most(value: int, rank: Rank) -> int:
    """The largest of all ranks' values."""
    if rank.world == 1:
        return value
    values: list[int] = [0] * rank.world
    dist.all_gather_object(values, value)
    return max(values)


def report(folder: Path, rank: Rank, failure: Failure) -> None:
    """Leave word for rank 0 why this rank fails."""
    content = {"moment": time.time(), "failure": failure.model_dump()}
    write_atomically(folder / f"failure-{rank.index}.json", json.dumps(content).encode())


def reported(folder: Path) -> Failure | None:
    """What the rank that failed first left word of."""
    found = [json.loads(path.read_bytes()) for path in folder.glob("failure-*.json")]
    if not found:
        return None
    return Failure.model_validate(min(found, key=lambda each: float(each["moment"]))["failure"])


def lost_the_others(error: BaseException) -> bool:
    """Whether an exception only says that another rank is gone, and so is not the cause."""
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(
        sign in text for sign in ("gloo", "connection closed", "connection reset", "nccl")
    )
