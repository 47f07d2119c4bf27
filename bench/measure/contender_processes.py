"""A contender's processes, one a device, as the parent sees them."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from tempfile import TemporaryDirectory
from typing import TypeVar

from lightning_bench.bench.measure.protocol import Failed, MeasureJob, Ready, Taken, run_worker
from lightning_bench.bench.store.measurements import Block, Measurement, MeasurementFailure, Memory
from lightning_bench.common.memory import oom_kills
from lightning_bench.common.processes import how_it_ended, start_with_pipe

_POLL_S = 0.1
_END_TIMEOUT_S = 2.0
#: What a contender's readiness tells of it for good.
_KEPT = (
    "counts",
    "unit",
    "per_example",
    "shape",
    "first_batch_s",
    "compile_s",
    "warm_up",
    "kernels",
    "memory",
    "energy_source",
)

Answer = TypeVar("Answer", Ready, Taken)
Fact = TypeVar("Fact")


@dataclass
class ContenderProcesses:
    """A contender's processes; a context manager."""

    job: MeasureJob
    context: ForkServerContext | SpawnContext
    tick: Callable[[], None]
    ready: Ready | None = None
    failure: MeasurementFailure | None = None
    blocks: list[Block] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    _members: list[tuple[BaseProcess, Connection]] = field(default_factory=list)

    def __enter__(self) -> "ContenderProcesses":
        """Start the processes."""
        self._oom_kills = oom_kills()
        self._folder = TemporaryDirectory(prefix="bench-measure-")
        for rank in range(self.job.setting.devices):
            job = replace(self.job, rank=rank, meeting=f"{self._folder.name}/meeting")
            self._members.append(start_with_pipe(self.context, run_worker, job, daemon=True))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End them: politely where they wait for us, else at once."""
        if kind is None and self.failure is None:
            self._send(None)
            for process, _pipe in self._members:
                process.join(_END_TIMEOUT_S)
        self._kill()
        self._folder.cleanup()

    @property
    def pids(self) -> frozenset[int]:
        """Its processes."""
        return frozenset(process.pid for process, _ in self._members if process.pid is not None)

    def prepare(self) -> Ready | Failed:
        """Wait until it is at its pace."""
        answers = self._answers(Ready)
        if isinstance(answers, Failed):
            return answers
        self.ready = replace(
            answers[0],
            memory=_summed_memory([answer.memory for answer in answers]),
            round_s=max(answer.round_s for answer in answers),
        )
        return self.ready

    def turn(self, number: int, place: int = 0, own: frozenset[int] = frozenset()) -> None:
        """Let it take its turn; a failure ends it for good.

        `place` is its place in the round, `own` are all processes of ours.
        """
        self._send(number)
        answers = self._answers(Taken)
        if isinstance(answers, Failed):
            return
        block = _merged(answers, self.job.setting.device, self.pids, own)
        self.blocks.append(block.model_copy(update={"place": place}))
        self.latency_s += answers[0].latency_s

    def measurement(self) -> Measurement:
        """What there is to record of it."""
        known = {}
        if self.ready is not None:
            known = {name: getattr(self.ready, name) for name in _KEPT}
        return Measurement(
            **{"unit": "images", **known},
            contender=self.job.contender,
            setting=self.job.setting,
            blocks=self.blocks,
            latency_s=self.latency_s,
            failure=self.failure,
        )

    def _send(self, what: int | None) -> None:
        for _, pipe in self._members:
            # Who has ended is found out when the answer doesn't come.
            with suppress(BrokenPipeError, ConnectionResetError):
                pipe.send(what)

    def _answers(self, wanted: type[Answer]) -> list[Answer] | Failed:
        """Everybody's answer, in the order of ranks; the first failure ends all of them."""
        answers: dict[Connection, Answer] = {}
        pipes = {pipe: process for process, pipe in self._members}
        while len(answers) < len(pipes):
            self.tick()
            for pipe in connection.wait(pipes.keys() - answers.keys(), _POLL_S):
                assert isinstance(pipe, Connection)
                try:
                    answer = pipe.recv()
                except (EOFError, ConnectionResetError):
                    answer = self._lost(pipes[pipe])
                if not isinstance(answer, wanted):
                    self.failure = MeasurementFailure(kind=answer.kind, message=answer.message)
                    # Nobody is to meet what it still holds of a GPU.
                    self._kill()
                    return Failed(answer.kind, answer.message)
                answers[pipe] = answer
        return [answers[pipe] for pipe in pipes]

    def _lost(self, process: BaseProcess) -> Failed:
        """It ended without a word."""
        process.join(_END_TIMEOUT_S)
        code = process.exitcode
        how = "closed its pipe and goes on" if code is None else how_it_ended(code)
        if oom_kills() > self._oom_kills:
            return Failed("out-of-memory", f"{how}, as the kernel ran out of memory")
        return Failed("lost", f"its process {how}")

    def _kill(self) -> None:
        """End them now."""
        for process, pipe in self._members:
            process.kill()
            process.join()
            process.close()
            pipe.close()
        self._members = []


def _merged(
    answers: Sequence[Taken], device: str, members: frozenset[int], own: frozenset[int]
) -> Block:
    """The block of all devices: the slowest one's time, everybody's energy."""
    blocks = [answer.block for answer in answers]
    # A processor's meter counts all of its cores, whoever reads it.
    metered = blocks if device == "cuda" else blocks[:1]
    siblings = sum(answer.own_cores for answer in answers[1:])
    others = blocks[0].others_cores
    energies = _known(block.energy_j for block in metered)
    return blocks[0].model_copy(
        update={
            "wall_s": max(block.wall_s for block in blocks),
            "device_s": max(_known(block.device_s for block in blocks), default=None),
            "waited_s": max(_known(block.waited_s for block in blocks), default=None),
            # Of the cores that rank 0 saw others use.
            "others_cores": None if others is None else max(0.0, others - siblings),
            "energy_j": sum(energies) if energies else None,
            "clock_mhz": min(_known(block.clock_mhz for block in blocks), default=None),
            "throttled": sorted({reason for block in blocks for reason in block.throttled}),
            "foreign_processes": _foreign(answers, members, own),
        }
    )


def _foreign(answers: Sequence[Taken], members: frozenset[int], own: frozenset[int]) -> int | None:
    """How many of others are on the GPUs; None where pids are not ours, as in a container."""
    listed = _known(answer.processes for answer in answers)
    if not listed or not all(processes & members for processes in listed):
        return None
    return len(frozenset[int]().union(*listed) - own)


def _summed_memory(parts: Sequence[Memory]) -> Memory:
    """The memory of all devices' processes."""
    reserved = _known(part.reserved_bytes for part in parts)
    return Memory(
        peak_bytes=sum(part.peak_bytes for part in parts),
        reserved_bytes=sum(reserved) if reserved else None,
        idle_bytes=sum(part.idle_bytes for part in parts),
    )


def _known(values: Iterable[Fact | None]) -> list[Fact]:
    return [value for value in values if value is not None]
