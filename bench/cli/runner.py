"""What `bench run` executes: the runs that a plan lacks, and the trials of its searches."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from types import FrameType
from typing import TYPE_CHECKING, Literal

from lightning_bench.bench.cli import interruption
from lightning_bench.bench.cli.options import make_plan
from lightning_bench.common.messages import duration

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from rich.console import Console

    from lightning_bench.bench.cli.live_display import RunDisplay
    from lightning_bench.bench.execute.executor import Executor
    from lightning_bench.bench.execute.job import Execution
    from lightning_bench.bench.execute.launcher import Launcher
    from lightning_bench.bench.plan.plan import Plan, PlannedRun
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.resolved import ResolvedEntry
    from lightning_bench.bench.study.study import Study
    from lightning_bench.bench.tracking.mirror import Mirror

Engine = Literal["local", "slurm"]


def lacks_runs(plan: "Plan", *, retry_failed: bool) -> bool:
    """Whether runs are to be started, or those of other processes to be waited for."""
    return bool(plan.to_run(retry_failed=retry_failed) or plan.running())


@dataclass(frozen=True)
class Runner:
    """Executes what a study lacks, all of it in the same way, with a display on the console."""

    console: "Console"
    store: "Store"
    execution: "Execution"
    engine: Engine
    jobs: int
    retry_failed: bool = False
    quiet: bool = False
    verbose: bool = False
    add_probabilities: bool = False

    def execute(
        self, plan: "Plan", storage: "BaseStorage | None", mirror: "Mirror | None"
    ) -> "Plan":
        """Stages that searches start from, the searches, the runs; then the plan as of now."""
        from lightning_bench.bench.plan.plan import adding_probabilities

        if storage is not None:
            stages = replace(plan, runs=[])
            if lacks_runs(stages, retry_failed=self.retry_failed):
                self.run(stages, mirror)
            plan = self.search(plan, storage)
        if self.add_probabilities:
            plan = adding_probabilities(plan)
        if lacks_runs(plan, retry_failed=self.retry_failed):
            self.run(plan, mirror)
        return make_plan(plan.study, self.store)

    def run(self, plan: "Plan", mirror: "Mirror | None") -> None:
        """Run what the plan lacks, and wait for what others run."""
        from lightning_bench.bench.execute.executor import Executor, Listener
        from lightning_bench.bench.execute.run_queue import RunQueue

        to_run, running = plan.to_run(retry_failed=self.retry_failed), plan.running()
        jobs = max(1, min(self.jobs, len(to_run)))
        left_s = sum(planned.expected_s for planned in to_run)
        launcher = self._launcher(plan.study, jobs)
        known = all(planned.expected_s for planned in to_run)
        about = f", about {duration(left_s / launcher.slots)}" if known else ""
        self._announce(
            f"{plan.study.name} ({plan.study.scale}): {len(to_run)} of {len(plan.all)} runs to "
            f"do, {launcher.slots} at a time{about}",
        )
        with self._display(to_run + running, launcher.slots) as display:
            work = RunQueue(to_run, running)
            listeners: Sequence[Listener] = [work, display, *([mirror] if mirror else [])]
            executor = Executor(self.store, launcher, self.execution, listeners)
            with stopping_at_signals(executor, plan.study.name_at_scale):
                executor.run(work, running)

    def search(self, plan: "Plan", storage: "BaseStorage") -> "Plan":
        """Run all trials that the budgets leave; the plan afterwards has the final runs."""
        from lightning_bench.bench.execute.executor import Executor
        from lightning_bench.bench.search.tuner import RETRIES, Tuner

        study, search = plan.study, plan.study.search
        assert search is not None
        times = [time.seconds for time in plan.trials.values() if time.seconds]
        expected_s = fmean(times) if times else 0.0
        tuner = Tuner(
            study.cells(),
            self.store,
            storage,
            expected_s=expected_s,
            devices=self.execution.devices,
        )
        unfinished = [ledger for ledger in plan.searches if not ledger.closed]
        left = sum(search.trials - len(ledger.trials) for ledger in unfinished)
        runs = left * len(search.seeds)
        launcher = self._launcher(study, max(1, min(self.jobs, runs)))
        jobs = launcher.slots
        about = f", at most about {duration(expected_s * runs / jobs)}" if times else ""
        self._announce(
            f"{study.name} ({study.scale}): {left} of {search.trials * len(plan.searches)} trials "
            f"to do, {jobs} at a time{about}",
        )
        with self._display([], jobs) as display:
            display.expect(runs, expected_s)
            # The search hears of a run before the terminal does: it may have to stop it.
            executor = Executor(self.store, launcher, self.execution, [tuner, display], RETRIES)
            tuner.prune = executor.prune
            with stopping_at_signals(executor, study.name_at_scale):
                executor.run(tuner)
        return make_plan(study, self.store)

    def _announce(self, line: str) -> None:
        if not self.quiet:
            self.console.print(line)

    def _display(self, planned: "list[PlannedRun]", jobs: int) -> "RunDisplay":
        from lightning_bench.bench.cli.live_display import RunDisplay

        return RunDisplay(self.console, planned, jobs, quiet=self.quiet, verbose=self.verbose)

    def _launcher(self, study: "Study", jobs: int) -> "Launcher":
        """The engine; on this host its forks find the libraries of the study imported."""
        if self.engine == "slurm":
            from lightning_bench.bench.execute.slurm import Slurm

            return Slurm(jobs, self.store, study.cluster, study.name_at_scale)
        from lightning_bench.bench.execute.local import Local
        from lightning_bench.bench.study import inputs

        # A module of others may change what every model computes: its own runs alone import it.
        variants = [entry.variant for entry in study.resolved.values()]
        modules = {variant.module for variant in variants if variant.ours}
        for dataset in inputs.datasets(study).values():
            modules |= {dataset.module, inputs.task_module(dataset)}
        if any(_needs_timm(entry) for entry in study.resolved.values()):
            modules.add("timm")
        local = Local(
            jobs, self.execution.device, sorted(modules), devices_a_run=self.execution.devices
        )
        if local.warning:
            self._announce(local.warning)
        return local


@contextmanager
def stopping_at_signals(executor: "Executor", study: str) -> Iterator[None]:
    """The first Ctrl-C or `kill` leaves checkpoints and stops, the second stops at once.

    A `bench cancel` of the study is a first one, on whatever host.
    """
    from lightning_bench.bench.execute.executor import Listener

    class Cancellation(Listener):
        def tick(self) -> None:
            if executor.store.cancellation(study) != last:
                executor.stop()

    last = executor.store.cancellation(study)
    executor.listeners = [*executor.listeners, Cancellation()]

    def answer(number: int, frame: FrameType | None) -> None:
        del frame
        interruption.note(number)
        # Before the first run has begun there is nothing to be left.
        if executor.stopping or not executor.active:
            raise KeyboardInterrupt
        executor.stop()

    before = {number: signal.signal(number, answer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _needs_timm(entry: "ResolvedEntry") -> bool:
    """Whether an entry's runs import timm, which takes a second that the fork server can spare."""
    recipe = entry.recipe
    model = entry.variant.name.startswith("timm/") or entry.variant.module.endswith("timm_convnets")
    by_timm = recipe.optimizer == "lamb" or recipe.optimizer.startswith("timm/")
    return model or by_timm or recipe.layer_decay != 1.0
