"""A measurement session: contenders in processes that stay warm take turns on one machine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from tempfile import TemporaryDirectory
from typing import Protocol, TypeVar

from lightning_bench.bench.measure import machine_state
from lightning_bench.bench.measure.protocol import (
    WORKER,
    Failed,
    MeasureJob,
    Ready,
    Taken,
    run_worker,
)
from lightning_bench.bench.measure.warm_up import Pace, largest_batch, turns
from lightning_bench.bench.store import provenance, session_files
from lightning_bench.bench.store.measurements import (
    Block,
    Contender,
    Measurement,
    MeasurementFailure,
    Memory,
    Session,
    Setting,
)
from lightning_bench.bench.store.record import Provenance
from lightning_bench.bench.store.store import Store
from lightning_bench.common.memory import oom_kills
from lightning_bench.common.processes import how_it_ended

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
    "memory",
    "energy_source",
)

Answer = TypeVar("Answer", Ready, Taken)


class SessionListener(Protocol):
    """Callbacks of a session, for a display."""

    def searching(self, job: MeasureJob, batch_size: int, fits: bool | None) -> None:
        """A batch size is tried (None), or was."""

    def preparing(self, job: MeasureJob) -> None:
        """A contender is made, counted and warmed up."""

    def prepared(self, job: MeasureJob, answer: Ready | Failed) -> None:
        """It is at its pace, or there will be no figure of it."""

    def turn(self, job: MeasureJob, number: int) -> None:
        """It takes its turn of a round."""

    def tick(self) -> None:
        """Some time has passed."""


@dataclass
class ContenderProcesses:
    """A contender's processes, one a device, as the parent sees them; a context manager."""

    job: MeasureJob
    context: ForkServerContext
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
            ours, theirs = self.context.Pipe()
            job = replace(self.job, rank=rank, meeting=f"{self._folder.name}/meeting")
            process = self.context.Process(target=run_worker, args=(theirs, job), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, ours))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End them: politely where they wait for us, else at once."""
        if kind is None and self.failure is None:
            self._send(None)
            for process, _pipe in self._members:
                process.join(_END_TIMEOUT_S)
        for process, pipe in self._members:
            process.kill()
            process.join()
            process.close()
            pipe.close()
        self._folder.cleanup()

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

    def turn(self, number: int) -> None:
        """Let it take its turn; a failure ends it for good."""
        self._send(number)
        answers = self._answers(Taken)
        if isinstance(answers, Failed):
            return
        blocks = [answer.block for answer in answers]
        on_device = [block.device_s for block in blocks if block.device_s is not None]
        waited = [block.waited_s for block in blocks if block.waited_s is not None]
        self.blocks.append(
            blocks[0].model_copy(
                update={
                    "wall_s": max(block.wall_s for block in blocks),
                    "device_s": max(on_device, default=None),
                    "waited_s": max(waited, default=None),
                }
            )
        )
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
        """Everybody's answer, in the order of ranks; the first failure ends the waiting."""
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


def _summed_memory(parts: Sequence[Memory]) -> Memory:
    """The memory of all devices' processes."""
    reserved = [part.reserved_bytes for part in parts if part.reserved_bytes is not None]
    return Memory(
        peak_bytes=sum(part.peak_bytes for part in parts),
        reserved_bytes=sum(reserved) if reserved else None,
        idle_bytes=sum(part.idle_bytes for part in parts),
    )


@dataclass
class SessionPlan:
    """The contenders and settings of a session, and how carefully it samples them."""

    asked: Sequence[tuple[Contender, Setting]]
    pace: Pace
    quick: bool
    sources: Mapping[str, str]
    modules: Iterable[str] = ()
    title: str = ""
    varied: str = ""
    search_batch: bool = False

    def run(self, store: Store, listener: SessionListener) -> Session:
        """Measure; on any exception, Ctrl-C among them, all processes are ended first."""
        context = get_context("forkserver")
        context.set_forkserver_preload([WORKER, *sorted(self.modules)])
        started = provenance.now()
        on_gpu = any(setting.device == "cuda" for _, setting in self.asked)
        before = machine_state.observe(on_gpu)
        jobs = [MeasureJob(contender, setting, self.pace) for contender, setting in self.asked]
        searched: dict[str, list[tuple[int, bool]]] = {}
        if self.search_batch:
            jobs = [_with_largest_batch(job, context, listener, searched) for job in jobs]
        with ExitStack() as stack:
            contenders = [ContenderProcesses(job, context, listener.tick) for job in jobs]
            for contender in contenders:
                listener.preparing(contender.job)
                stack.enter_context(contender)
                listener.prepared(contender.job, contender.prepare())
            for number, contender in turns(contenders, self.pace.rounds):
                if contender.failure is None:
                    listener.turn(contender.job, number)
                    contender.turn(number)
            after = machine_state.observe(on_gpu)
            gpus = next((contender.ready.gpus for contender in contenders if contender.ready), [])
        environment = store.write_environment(provenance.environment(gpus))
        return Session(
            id=session_files.new_id(started),
            key=session_files.key_of(self.asked, self.sources, quick=self.quick),
            title=self.title,
            quick=self.quick,
            rounds=self.pace.rounds,
            started=started,
            ended=provenance.now(),
            before=before,
            after=after,
            measurements=[contender.measurement() for contender in contenders],
            searched=searched,
            varied=self.varied,
            provenance=_provenance(self, environment),
        )


def _with_largest_batch(
    job: MeasureJob,
    context: ForkServerContext,
    listener: SessionListener,
    searched: dict[str, list[tuple[int, bool]]],
) -> MeasureJob:
    """The job with the largest power of two that fits; each is tried in a process of its own."""
    tried = searched.setdefault(f"{job.contender.label}, {job.setting.mode}", [])
    # One step and no more is taken of each.
    hasty = Pace(least_steps=1, least_s=0.0, most_s=0.0, block_s=0.0, rounds=1)

    def sized(size: int) -> Setting:
        return job.setting.model_copy(update={"batch_size": size})

    def fits(size: int) -> bool:
        listener.searching(job, size, None)
        trial = replace(job, setting=sized(size), pace=hasty, counted=False, latency=False)
        with ContenderProcesses(trial, context, listener.tick) as contender:
            answer = contender.prepare()
        listener.searching(job, size, isinstance(answer, Ready))
        tried.append((size, isinstance(answer, Ready)))
        return isinstance(answer, Ready)

    return replace(job, setting=sized(max(1, largest_batch(fits))))


def _provenance(plan: SessionPlan, environment: str) -> Provenance:
    settings = [setting for _, setting in plan.asked]
    return provenance.collect(
        environment=environment,
        sources=plan.sources,
        command=provenance.command_line(),
        device=settings[0].device,
        devices=max(setting.devices for setting in settings),
        threads=settings[0].threads,
    )
