"""Distributed training: the ranks of a run, their process group, and what one's end means for all.

On one host the worker is rank 0 and forks the others (`RankProcesses`); a cluster starts all of
them at once, and each reads its rank from the environment (`Rank.of_slurm`).
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Self

import torch
import torch.distributed as dist
from pytorch_lightning.plugins.environments import LightningEnvironment, SLURMEnvironment  # type: ignore[attr-defined]

from lightning_bench.bench.execute.job import STOPPED
from lightning_bench.bench.store.record import Failure
from lightning_bench.common.files import write_atomically
from lightning_bench.common.processes import how_it_ended

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: A rank that waits longer than this for the others gives up.
_TIMEOUT = timedelta(minutes=10)
#: How long to wait for a failed rank to say what happened to it.
FAILURE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Rank:
    """A rank of the process group of a run: its place among `world` ranks on so many `nodes`.

    `address` and `port` are where rank 0 listens.
    """

    index: int = 0
    world: int = 1
    local: int = 0
    nodes: int = 1
    address: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def of_slurm(cls) -> "Rank":
        """The rank of this process in the SLURM step that started it, as Lightning reads it."""
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
    def process_group(
        self, device: str, on_listening: Callable[["Rank"], None] | None = None
    ) -> Iterator[None]:
        """Join the process group of the run, and leave it when all ranks do.

        Rank 0 may listen on any port; `on_listening` then hears where, to start the others.
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
        if on_listening is not None:
            on_listening(replace(self, port=store.port))
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


class RankEnvironment(LightningEnvironment):
    """Lightning's cluster environment: all ranks run already, and have a process group."""

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


class RankProcesses:
    """The processes of the other ranks on this host: forks of rank 0 that wait to be started.

    A context manager; to be made before rank 0 has threads or has touched a GPU, since a fork
    carries neither over. So no rank imports torch anew, nor needs a second fork server.
    """

    def __init__(self, world: int, main: Callable[[Rank], None]) -> None:
        """Fork them; each is to call `main` with its rank once it is started."""
        context = get_context("fork")
        self._pipes: list[Connection[Rank, None]] = []
        self._processes: list[BaseProcess] = []
        self.finished = False  # to be set when all ranks have done their part
        for index in range(1, world):
            ours, theirs = context.Pipe()
            self._pipes.append(ours)
            process = context.Process(target=self._run, args=(theirs, main), name=f"rank {index}")
            process.start()
            theirs.close()
            self._processes.append(process)

    def _run(self, pipe: "Connection[None, Rank]", main: Callable[[Rank], None]) -> None:
        """In the fork: wait for the start."""
        for inherited in self._pipes:
            inherited.close()
        try:
            rank = pipe.recv()
        except EOFError:  # rank 0 has ended before it trained
            return
        main(rank)

    def start(self, first: Rank) -> None:
        """Start all ranks but the first, which tells where it listens."""
        for index, pipe in enumerate(self._pipes, start=1):
            with suppress(OSError):  # one that was killed is noticed like any later
                pipe.send(replace(first, index=index, local=index))

    def watch(self, on_loss: Callable[[], None]) -> None:
        """Call `on_loss`, in a thread, where one has died and rank 0 still has not noticed."""
        sentinels = [process.sentinel for process in self._processes]

        def wait() -> None:
            connection.wait(sentinels)
            time.sleep(2 * FAILURE_TIMEOUT_S)
            # One that was stopped left this one to write the checkpoint, however long that takes.
            if not self.finished and not any(p.exitcode == STOPPED for p in self._processes):
                on_loss()

        Thread(target=wait, daemon=True).start()

    def died(self) -> tuple[int, str] | None:
        """The rank that ended, and how, without having been let go."""
        for index, process in enumerate(self._processes, start=1):
            code = process.exitcode
            if code is not None:
                return index, how_it_ended(code)
        return None

    def end(self) -> None:
        """Wait until they have ended; kill them after a while."""
        for pipe in self._pipes:
            pipe.close()
        deadline = time.monotonic() + FAILURE_TIMEOUT_S
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def all_max(value: int, rank: Rank) -> int:
    """The largest of all ranks' values."""
    if rank.world == 1:
        return value
    values: list[int] = [0] * rank.world
    dist.all_gather_object(values, value)
    return max(values)


def write_failure(folder: Path, rank: Rank, failure: Failure) -> None:
    """Write to a file, for rank 0, why this rank failed."""
    content = {"moment": time.time(), "failure": failure.model_dump()}
    write_atomically(folder / f"failure-{rank.index}.json", json.dumps(content).encode())


def first_failure(folder: Path) -> Failure | None:
    """The failure of the rank that failed first, as far as they have been written."""
    failures = [json.loads(path.read_bytes()) for path in folder.glob("failure-*.json")]
    if not failures:
        return None
    return Failure.model_validate(min(failures, key=lambda each: float(each["moment"]))["failure"])


def is_lost_connection(error: BaseException) -> bool:
    """Whether an exception only says that the connection to another rank is lost."""
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(
        sign in text for sign in ("gloo", "connection closed", "connection reset", "nccl")
    )
