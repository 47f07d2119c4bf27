"""Distributed training: the ranks of a run, their process group, and what one's end means for all.

On one host the worker is rank 0 and forks the others (`RankProcesses`); a cluster starts all of
them at once, and each reads its rank from the environment (`Rank.of_slurm`).
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Self, TypeVar

import torch.distributed as dist
from pytorch_lightning.plugins.environments import LightningEnvironment, SLURMEnvironment  # type: ignore[attr-defined]

from lightning_bench.bench.execute.job import Verdict
from lightning_bench.bench.run import collectives, cuda_device
from lightning_bench.bench.run.lifelines import FAILURE_TIMEOUT_S, Lifeline, Lifelines
from lightning_bench.common.machine import fork_is_safe, usable_cores
from lightning_bench.common.processes import how_it_ended

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")


class Parting(Exception):
    """All ranks end here, by agreement, and none waits for another any more."""


class Terminated(BaseException):
    """SIGTERM where there is nothing to be kept; no `except Exception` of a model's holds it up."""


@dataclass(frozen=True)
class Rank:
    """A rank of the process group of a run: its place among `world` ranks on so many `nodes`.

    `address` and `port` are where rank 0 listens; a cluster gave this rank so many `cores`.
    """

    index: int = 0
    world: int = 1
    local: int = 0
    nodes: int = 1
    address: str = "127.0.0.1"
    port: int = 0
    cores: int = 1

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
            cores=int(os.environ.get("SLURM_CPUS_PER_TASK", "1")),
        )

    @property
    def usable_cores(self) -> int:
        """The cores for this rank alone: an equal share of its host's, or those of its task."""
        usable = usable_cores()  # of the task alone, where the cluster binds tasks to cores
        return min(usable, max(self.cores, usable // (self.world // self.nodes)))

    @property
    def first(self) -> bool:
        """Whether it is the one that claims, reports and writes the record."""
        return self.index == 0

    @contextmanager
    def process_group(
        self,
        device: str,
        on_listening: Callable[["Rank"], None] | None = None,
        lifelines: Lifelines | None = None,
    ) -> Iterator[Lifeline | None]:
        """Take this rank's device, join the process group of the run, and leave it when all do.

        Rank 0 may listen on any port; `on_listening` then hears where, to start the others, and
        `lifelines` are its ends of theirs. Whoever leaves by an exception leaves the group as it
        is, since to destroy it may wait for ever for the others, and is to end its process.
        """
        if self.world == 1:
            if device == "cuda":
                cuda_device.take(self.local, 1)
            yield None
            return
        store = dist.TCPStore(  # type: ignore[attr-defined]
            self.address,
            self.port,
            self.world,
            is_master=self.first,
            timeout=collectives.TIMEOUT,
            wait_for_workers=False,
        )
        if on_listening is not None:
            on_listening(replace(self, port=store.port))
        lifeline = None
        if self.first:
            store.set("lifelines", str(lifelines.port if lifelines else 0))
        else:
            lifeline = Lifeline(self.index, self.address, store.get("lifelines").decode())
        if device == "cuda":
            # With a lifeline, so that the first rank hears where there is none.
            cuda_device.take(self.local, self.world // self.nodes)
        collectives.join(device, store, self.index, self.world)
        try:
            yield lifeline
            # Whoever closed its connections first would look dead to the others.
            dist.barrier()
        except (Parting, Terminated):
            if lifeline is not None:
                lifeline.part()
            raise
        if lifeline is not None:
            lifeline.part()
        if lifelines is not None:
            lifelines.finished = True
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
    carries neither over. So no rank imports torch anew, nor needs a second fork server. Where a
    fork is not safe, they are spawned, and import it.
    """

    def __init__(self, world: int, main: Callable[[Rank], Verdict | None]) -> None:
        """Make them; each is to call `main` with its rank once it is started."""
        context = get_context("fork") if fork_is_safe() else get_context("spawn")
        self._pipes: list[Connection[Rank, Verdict | None]] = []
        self._processes: list[BaseProcess] = []
        self._verdicts: dict[int, Verdict | None] = {}
        for index in range(1, world):
            ours, theirs = context.Pipe()
            self._pipes.append(ours)
            inherited = self._pipes if fork_is_safe() else []
            process: BaseProcess = context.Process(
                target=_wait_for_start, args=(theirs, main, inherited), name=f"rank {index}"
            )
            process.start()
            theirs.close()
            self._processes.append(process)

    def start(self, first: Rank) -> None:
        """Start all ranks but the first, which tells where it listens."""
        for index, pipe in enumerate(self._pipes, start=1):
            with suppress(OSError):  # one that was killed is noticed like any later
                pipe.send(replace(first, index=index, local=index))

    @property
    def sentinels(self) -> list[int]:
        """Handles to wait for: each is ready when its process has ended."""
        return [process.sentinel for process in self._processes]

    def died(self) -> tuple[int, str] | None:
        """A rank that has ended, and how, unless it was asked to stop."""
        died = []
        for index, process in enumerate(self._processes, start=1):
            code = process.exitcode
            if code is not None and self._verdict(index) != "stopped":
                # With 1 those end that have lost another rank.
                died.append((code == 1, index, code))
        if not died:
            return None
        _, index, code = min(died)
        return index, how_it_ended(code)

    def _verdict(self, index: int) -> Verdict | None:
        """What a rank that has ended said last."""
        pipe = self._pipes[index - 1]
        with suppress(EOFError, OSError):
            while pipe.poll():
                self._verdicts[index] = pipe.recv()
        return self._verdicts.get(index)

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


def gather(value: T, rank: Rank) -> list[T]:
    """The values of all ranks, in their order, on each of them."""
    values = [value] * rank.world
    if rank.world > 1:
        dist.all_gather_object(values, value)
    return values


def _wait_for_start(
    pipe: "Connection[Verdict | None, Rank]",
    main: Callable[[Rank], Verdict | None],
    inherited: "list[Connection[Rank, Verdict | None]]",
) -> None:
    """What a rank's process does: wait for its start, then work as that rank."""
    for end in inherited:
        end.close()
    try:
        rank = pipe.recv()
    except EOFError:  # rank 0 has ended before it trained
        return
    verdict = main(rank)
    with suppress(OSError):  # rank 0 has ended before
        pipe.send(verdict)
