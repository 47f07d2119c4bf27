"""A measurement session: contenders in processes that stay warm take turns on one machine."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from lightning_bench.bench.measure import machine_state
from lightning_bench.bench.measure.batch_search import (
    Searched,
    SearchListener,
    with_largest_batches,
)
from lightning_bench.bench.measure.contender_processes import ContenderProcesses
from lightning_bench.bench.measure.protocol import WORKER, Failed, MeasureJob, Ready
from lightning_bench.bench.measure.warm_up import Pace, turns
from lightning_bench.bench.store import provenance, session_files
from lightning_bench.bench.store.measurements import Contender, Session, Setting
from lightning_bench.bench.store.record import Provenance
from lightning_bench.bench.store.store import Store
from lightning_bench.common.machine import worker_context
from lightning_bench.common.processes import preload


class SessionListener(SearchListener, Protocol):
    """Callbacks of a session, for a display."""

    def preparing(self, job: MeasureJob) -> None:
        """A contender is made, counted and warmed up."""

    def prepared(self, job: MeasureJob, answer: Ready | Failed) -> None:
        """It is at its pace, or there will be no figure of it."""

    def turn(self, job: MeasureJob, number: int) -> None:
        """It takes its turn of a round."""


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
    gpus: Sequence[str] = ()  # that the session has claimed

    def run(self, store: Store, listener: SessionListener) -> Session:
        """Measure; on any exception, Ctrl-C among them, all processes are ended first."""
        context = worker_context()
        preload(context, [WORKER, *sorted(self.modules)])
        started = provenance.now()
        before = machine_state.observe()
        jobs = [self._job(contender, setting) for contender, setting in self.asked]
        searched: Searched = {}
        if self.search_batch:
            jobs, searched = with_largest_batches(jobs, context, listener)
        with ExitStack() as stack:
            contenders = [ContenderProcesses(job, context, listener.tick) for job in jobs]
            for contender in contenders:
                listener.preparing(contender.job)
                stack.enter_context(contender)
                listener.prepared(contender.job, contender.prepare())
            for place, (number, contender) in enumerate(turns(contenders, self.pace.rounds)):
                if contender.failure is None:
                    listener.turn(contender.job, number)
                    own = frozenset().union(*(each.pids for each in contenders))
                    contender.turn(number, place % len(contenders), own)
            after = machine_state.observe()
            ready = [contender.ready for contender in contenders if contender.ready]
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
            provenance=self._provenance(store, ready),
        )

    def _job(self, contender: Contender, setting: Setting) -> MeasureJob:
        gpus = tuple(self.gpus[: setting.devices]) if setting.device == "cuda" else ()
        return MeasureJob(contender, setting, self.pace, gpus=gpus, shared=len(self.asked) > 1)

    def _provenance(self, store: Store, ready: Sequence[Ready]) -> Provenance:
        settings = [setting for _, setting in self.asked]
        environment = next((each.environment for each in ready if each.environment), None)
        written = store.write_environment(environment or provenance.environment([]))
        return provenance.collect(
            environment=written,
            sources=self.sources,
            gpus=max((each.gpus for each in ready), key=len, default=[]),
            command=provenance.command_line(),
            device=settings[0].device,
            devices=max(setting.devices for setting in settings),
            threads=settings[0].threads,
        )
