"""Measuring with a display: what `bench measure` and a study with cost columns have in common."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from lightning_bench.bench.cli.console import styled
from lightning_bench.common.messages import duration
from lightning_bench.reports.text.numbers import joined

if TYPE_CHECKING:
    from lightning_bench.bench.execute.gpu_locks import GpuClaim
    from lightning_bench.bench.execute.job import Device
    from lightning_bench.bench.measure.protocol import Failed, MeasureJob, Ready
    from lightning_bench.bench.measure.warm_up import Pace
    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.store.measurements import Contender, Session, Setting
    from lightning_bench.bench.store.store import Store


@dataclass(frozen=True)
class MeasureOptions:
    """How carefully, and in what words."""

    quick: bool = False
    rounds: int | None = None
    title: str = ""
    varied: str = ""
    search_batch: bool = False

    def pace(self) -> "Pace":
        """How much sampling it takes."""
        from lightning_bench.bench.measure.warm_up import CAREFUL, QUICK

        pace = QUICK if self.quick else CAREFUL
        return replace(pace, rounds=self.rounds) if self.rounds else pace


def measure(
    console: Console,
    store: "Store",
    asked: Sequence[tuple["Contender", "Setting"]],
    options: MeasureOptions,
) -> "Session":
    """Measure, keep the session in the store, and return it; nothing is kept of half of one."""
    from lightning_bench.bench.measure import contenders
    from lightning_bench.bench.measure.session import SessionPlan
    from lightning_bench.bench.store import session_files
    from lightning_bench.models.registry import catalogue as model_catalogue

    models = [model_catalogue.find(contender.model) for contender, _ in asked]
    # A module of others may change what every model computes: its own process alone imports it.
    modules = {model.module for model in models if model.ours}
    pace = options.pace()
    plan = SessionPlan(
        asked=asked,
        pace=pace,
        quick=options.quick,
        sources=contenders.sources_of(contender for contender, _ in asked),
        modules=modules,
        title=options.title,
        varied=options.varied,
        search_batch=options.search_batch,
    )
    with (
        _claimed([setting for _, setting in asked]) as claim,
        MeasureDisplay(console, len(asked), pace.rounds) as display,
    ):
        if claim.warning:
            console.print(claim.warning, soft_wrap=True)
        session = replace(plan, gpus=claim.ids).run(store, display)
    session_files.keep(store, session)
    return session


@contextmanager
def _claimed(settings: "Sequence[Setting]") -> Iterator["GpuClaim"]:
    """The GPUs of a session, which no other bench uses meanwhile."""
    from lightning_bench.bench.execute import devices, gpu_locks

    needed = max((s.devices for s in settings if s.device == "cuda"), default=0)
    with gpu_locks.claim(needed, needed) if needed else gpu_locks.GpuClaim() as claim:
        if needed:
            devices.prepare_environment()
        yield claim


def for_study(console: Console, store: "Store", plan: "Plan", device: "Device") -> None:
    """Measure the models of a study that asks for it, unless that is done and nothing changed."""
    from lightning_bench.bench.execute.devices import resolve
    from lightning_bench.bench.measure import contenders

    runs, wanted = [planned.run for planned in plan.runs], plan.study.measure
    if wanted is None or not runs or contenders.find(store, runs, wanted):
        return
    asked = contenders.asked(runs, wanted, resolve(device))
    models = len({contender.label for contender, _ in asked})
    console.print(f"{plan.study.name}: measuring {models} models ({joined(wanted.mode)})")
    store.prepare()
    measure(console, store, asked, MeasureOptions(quick=wanted.quick, title=plan.study.title))


class MeasureDisplay:
    """A Listener of a session: a bar with the time left on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console, contenders: int, rounds: int) -> None:
        self.console, self.contenders, self.rounds = console, contenders, rounds
        self._live = console.is_terminal
        self._round_s: dict[int, float] = {}  # of those that are ready, by the job's identity
        self._prepared = self._turns = 0
        self._began = self._racing = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.fields[what]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not self._live,
        )
        self._bar = self._progress.add_task("", total=1.0, what="importing torch …", left="")

    def __enter__(self) -> "MeasureDisplay":
        """Take the terminal."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._progress.stop()

    def searching(self, job: "MeasureJob", batch_size: int, fits: bool | None) -> None:
        """A batch size is tried, or was."""
        name = f"{job.contender.label}, {job.setting.mode}: batch {batch_size}"
        self._say(f"trying {name}")
        if fits is not None:
            self.console.print(f"{name} {'fits' if fits else 'does not fit'}")

    def preparing(self, job: "MeasureJob") -> None:
        """A contender is made and warmed up."""
        self._preparing = time.monotonic()
        self._say(f"warming up {job.contender.label}, {job.setting.mode}")

    def prepared(self, job: "MeasureJob", answer: "Ready | Failed") -> None:
        """It is at its pace, or failed."""
        from lightning_bench.bench.measure.protocol import Failed

        self._prepared += 1
        self._last_s = time.monotonic() - self._preparing
        name = f"{job.contender.label}, {job.setting.mode}"
        if isinstance(answer, Failed):
            line = styled(answer.kind, "red", f"  {name}: {answer.message}")
            self.console.print(line, soft_wrap=True)
            return
        self._round_s[self._prepared] = answer.round_s
        if not self._live:
            settled = "" if answer.warm_up.settled else ", not steady yet"
            self.console.print(
                f"{name}: warm after {answer.warm_up.steps} steps{settled}", soft_wrap=True
            )

    def turn(self, job: "MeasureJob", number: int) -> None:
        """It takes its turn."""
        if self._turns == 0:
            self._racing = time.monotonic()
            if not self._live:
                left = duration(self.rounds * sum(self._round_s.values()))
                self.console.print(f"{self.rounds} rounds, about {left}")
        self._turns += 1
        self._say(f"round {number + 1}/{self.rounds}  {job.contender.label}")

    def tick(self) -> None:
        """Redraw."""
        left_s = self._left_s()
        if left_s is None:
            return
        spent_s = time.monotonic() - self._began
        left = f"about {duration(left_s)} left"
        self._progress.update(self._bar, completed=spent_s / (spent_s + left_s + 1e-9), left=left)

    def _say(self, what: str) -> None:
        self._progress.update(self._bar, what=escape(what))
        self.tick()

    def _left_s(self) -> float | None:
        """Estimated from what ready contenders expect of a round, or from rounds that are over."""
        if not self._round_s:
            return None
        turns = self.rounds * len(self._round_s)
        if self._turns > len(self._round_s):
            done = self._turns - 1
            return (time.monotonic() - self._racing) / done * (turns - done)
        # Those that are still to come are taken to be like those that are there.
        known = sum(self._round_s.values()) / len(self._round_s)
        coming = self.contenders - self._prepared
        return coming * self._last_s + (len(self._round_s) + coming) * known * self.rounds
