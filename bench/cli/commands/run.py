"""`bench run`: do what the plan lacks, then print the table."""

import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lightning_bench.bench.cli.options import (
    DEFAULT_STORE,
    ClusterSettings,
    DataRoot,
    Jobs,
    Scale,
    Settings,
    StoreFolder,
    StudyName,
    duration,
    make_plan,
    open_study,
    use_data_root,
)
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.devices import demand, demand_compiler, gpus
from lightning_bench.bench.execute.job import Device, Execution, Strategy
from lightning_bench.common.messages import nearest

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from rich.console import Console

    from lightning_bench.bench.cli.live_display import Display
    from lightning_bench.bench.execute.executor import Executor
    from lightning_bench.bench.execute.launcher import Launcher
    from lightning_bench.bench.plan.plan import Plan, PlannedRun
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.study import Study
    from lightning_bench.bench.tracking.mirror import Mirror

Engine = Literal["local", "slurm"]

INTERRUPTED = 130
RUNS_FAILED = 3
#: Runs in a cluster's queue at a time, unless the command says so.
_QUEUE = 100


def run_command(
    name: StudyName,
    scale: Scale = None,
    settings: Settings = None,
    store: StoreFolder = DEFAULT_STORE,
    data_root: DataRoot = None,
    jobs: Jobs = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="Devices of a run; by default the page's.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads of a device; by default the page's.")
    ] = None,
    device: Annotated[Device, typer.Option(help="Where to train.")] = "auto",
    strategy: Annotated[
        Strategy, typer.Option(help="How several devices share a run; fsdp for giant models.")
    ] = "ddp",
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the models.")] = False,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0.01, help="The longest time between two checkpoints.")
    ] = 10.0,
    launcher: Annotated[
        Engine, typer.Option(help="What carries out the runs.", envvar="BENCH_LAUNCHER")
    ] = "local",
    cluster: ClusterSettings = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed runs again, too.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Tell of trouble alone, then print the tables.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell of each start and epoch, too.")
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Show it elsewhere too: wandb, tensorboard, csv.", envvar="BENCH_TRACK"),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="BENCH_STORAGE",
            help="Where a search keeps its Optuna studies, as postgresql://…; else in the store.",
        ),
    ] = None,
) -> int:
    """Run what is missing of a study, and print its tables.

    Finished runs are kept: after an interruption the same command goes on.
    """
    from lightning_bench.bench.tracking import TRACKERS

    for tracker in track or ():
        if tracker not in TRACKERS:
            raise UserError(f"unknown tracker {tracker!r}{nearest(tracker, TRACKERS)}")
    if quiet and verbose:
        raise UserError("--quiet and --verbose exclude each other")
    use_data_root(data_root)
    study, opened = open_study(name, scale, settings, store, cluster)
    plan = make_plan(study, opened)
    from rich.console import Console

    console = Console(highlight=False)
    mirror = None
    if plan.searching or plan.to_run(retry_failed=retry_failed) or plan.running():
        local = launcher == "local"
        given = devices or study.devices
        execution = Execution(
            device=device,
            devices=(given or 1) if local else study.cluster.devices(given),
            threads=threads or study.threads,
            strategy=strategy,
            compile=compiled,
            checkpoint_s=60 * checkpoint_minutes,
        )
        room = demand(device, execution.devices, execution.threads) if local else _QUEUE
        way = _Way(launcher, jobs or room, execution, retry_failed, quiet, verbose)
        _demand_fit(plan, execution, local=local)
        _demand_data(plan)
        memory = _connect(storage, plan, opened) if plan.searching else None
        opened.prepare()
        mirror = _mirror(track, opened, plan)
        try:
            if memory is not None:
                first = replace(plan, runs=[])
                if first.to_run(retry_failed=retry_failed) or first.running():
                    way.run(console, opened, first, mirror)
                plan = way.search(console, opened, plan, memory)
            if plan.to_run(retry_failed=retry_failed) or plan.running():
                way.run(console, opened, plan, mirror)
        except KeyboardInterrupt:
            console.print(f"stopped: {_reached(make_plan(study, opened))}; go on with")
            console.print(f"  {_again()}", markup=False, soft_wrap=True)
            return INTERRUPTED
        except OSError as error:
            what = f"{error.strerror}; finished runs are kept, the same command goes on"
            raise OSError(error.errno, what, str(store)) from None
        plan = make_plan(study, opened)
    if study.measure is not None:
        from lightning_bench.bench.cli import measure_display

        try:
            measure_display.for_study(console, opened, plan)
        except KeyboardInterrupt:
            console.print("stopped while measuring, of which nothing is kept; go on with")
            console.print(f"  {_again()}", markup=False, soft_wrap=True)
            return INTERRUPTED
    target = _show_report(console, opened, plan, settings or [], tracked=mirror is not None)
    if mirror is not None:
        mirror.reported(target)
        for line in mirror.close():
            console.print(line, soft_wrap=True, markup=False)
    return _left(console, plan)


def _connect(storage: str | None, plan: "Plan", store: "Store") -> "BaseStorage":
    """Open where a search keeps its Optuna studies; one out of reach is said before all else."""
    from lightning_bench.bench.search.optuna_storage import connect
    from lightning_bench.bench.study import search_cell

    if storage is None:
        store.prepare()
    return connect(
        storage, search_cell.searches(store.root, f"{plan.study.name}-{plan.study.scale}")
    )


def _demand_fit(plan: "Plan", execution: Execution, *, local: bool) -> None:
    """Say in one line, before anything starts, which recipe can't be trained so."""
    from lightning_bench.bench.study.compatibility import unfit_devices

    device: str = execution.device
    if device == "auto":
        # What a cluster's nodes have is known there alone.
        device = "cuda" if not local or gpus() else "cpu"
    if execution.compile and local and device == "cpu":
        demand_compiler()
    study = plan.study
    recipes = [(label, entry.recipe) for label, entry in study.resolved.items()]
    recipes += [(planned.run.entry, planned.run.spec.recipe) for planned in plan.runs]  # stages too
    searched = ("batch_size", "accumulate", "precision")
    recipes += [(cell.entry, found) for cell in study.cells() for found in cell.extremes(*searched)]
    for label, recipe in recipes:
        problem = unfit_devices(
            recipe,
            device=device,
            devices=execution.devices,
            strategy=execution.strategy,
        )
        if problem:
            raise UserError(f"{label}: {problem}")


def _demand_data(plan: "Plan") -> None:
    """Say in one line, before anything starts, what data or weights are not to be had."""
    from lightning_bench.bench.study import inputs
    from lightning_bench.data.errors import DataError
    from lightning_bench.data.sources import repository

    try:
        for dataset, patterns in inputs.files(plan.study):
            assert dataset.repository
            repository.demand(dataset.repository, patterns, revision=dataset.revision)
        for name in inputs.weights(plan.study):
            if not Path(name).exists():
                repository.demand(name, repository.WEIGHTS, kind="model")
    except DataError as error:
        raise UserError(str(error)) from None


@dataclass(frozen=True)
class _Way:
    """How runs are to be executed."""

    engine: Engine
    jobs: int
    execution: Execution
    retry_failed: bool
    quiet: bool
    verbose: bool

    def run(
        self, console: "Console", store: "Store", plan: "Plan", mirror: "Mirror | None"
    ) -> None:
        """Run what the plan lacks, and wait for what others run."""
        from lightning_bench.bench.execute.executor import Executor, Listener
        from lightning_bench.bench.execute.run_queue import Ordered

        to_run, running = plan.to_run(retry_failed=self.retry_failed), plan.running()
        jobs = max(1, min(self.jobs, len(to_run)))
        left_s = sum(planned.expected_s for planned in to_run) / jobs
        self._announce(
            console,
            f"{plan.study.name} ({plan.study.scale}): {len(to_run)} of {len(plan.all)} runs to "
            f"do, {jobs} at a time, about {duration(left_s)}",
        )
        launcher = self._launcher(plan.study, store, jobs)
        with self._display(console, to_run + running, jobs) as display:
            work = Ordered(to_run, running)
            listeners: Sequence[Listener] = [work, display, *([mirror] if mirror else [])]
            executor = Executor(store, launcher, self.execution, listeners)
            with _answering(executor, f"{plan.study.name}-{plan.study.scale}"):
                executor.run(work, running)

    def search(
        self, console: "Console", store: "Store", plan: "Plan", memory: "BaseStorage"
    ) -> "Plan":
        """Run all trials that the budgets leave; the plan afterwards has the final runs."""
        from lightning_bench.bench.execute.executor import Executor
        from lightning_bench.bench.search.tuner import RETRIES, Tuner

        study, search = plan.study, plan.study.search
        assert search is not None
        tuner = Tuner(
            study.cells(),
            store,
            memory,
            run_s=study.run_s,
            devices=self.execution.devices,
        )
        unfinished = [ledger for ledger in plan.searches if not ledger.closed]
        left = sum(search.trials - len(ledger.trials) for ledger in unfinished)
        runs = left * len(search.seeds)
        jobs = max(1, min(self.jobs, runs))
        self._announce(
            console,
            f"{study.name} ({study.scale}): {left} of {search.trials * len(plan.searches)} trials "
            f"to do, {jobs} at a time, at most about {duration(study.run_s * runs / jobs)}",
        )
        launcher = self._launcher(study, store, jobs)
        with self._display(console, [], jobs) as display:
            display.expect(runs, study.run_s)
            # The search hears of a run before the terminal does: it may have to stop it.
            executor = Executor(store, launcher, self.execution, [tuner, display], RETRIES)
            tuner.prune = executor.prune
            with _answering(executor, f"{study.name}-{study.scale}"):
                executor.run(tuner)
        return make_plan(study, store)

    def _announce(self, console: "Console", line: str) -> None:
        if not self.quiet:
            console.print(line)

    def _display(self, console: "Console", planned: "list[PlannedRun]", jobs: int) -> "Display":
        from lightning_bench.bench.cli.live_display import Display

        return Display(console, planned, jobs, quiet=self.quiet, verbose=self.verbose)

    def _launcher(self, study: "Study", store: "Store", jobs: int) -> "Launcher":
        """The engine; on this host its forks find the libraries of the study imported."""
        if self.engine == "slurm":
            from lightning_bench.bench.execute.slurm import Slurm

            return Slurm(jobs, store, study.cluster, f"{study.name}-{study.scale}")
        from lightning_bench.bench.execute.local import Local
        from lightning_bench.bench.study import inputs

        modules = {entry.variant.module for entry in study.resolved.values()}
        for dataset in inputs.datasets(study).values():
            modules |= {dataset.module, inputs.task_module(dataset)}
        return Local(jobs, self.execution.device, sorted(modules))


def _mirror(trackers: list[str] | None, store: "Store", plan: "Plan") -> "Mirror | None":
    if not trackers:
        return None
    from lightning_bench.bench.tracking.mirror import Mirror

    return Mirror(trackers, store.root, plan.study)


def _show_report(
    console: "Console", store: "Store", plan: "Plan", settings: list[str], *, tracked: bool
) -> Path:
    """Print the report of a plan, making its files where they are not current."""
    from lightning_bench.bench.cli import build_report
    from lightning_bench.reports.render import terminal
    from lightning_bench.reports.render.write import FORMATS, TRACKED

    target = build_report.folder(plan.study, store, settings)
    build_report.make(
        plan,
        store,
        target,
        TRACKED if tracked else FORMATS,
        show=lambda report: console.print(terminal.render(report)),
    )
    console.print(f"\nreport: {target}/report.html (.md .tex .csv .parquet .json)", soft_wrap=True)
    return target


def _reached(plan: "Plan") -> str:
    """How far a study is that was stopped."""
    if plan.searching:
        over = sum(len(ledger.trials) for ledger in plan.searches)
        wanted = sum(ledger.budget.trials for ledger in plan.searches)
        return f"{over} of {wanted} trials are over and kept"
    return f"{plan.counts()['done']} of {len(plan.all)} runs are done and kept"


def _left(console: "Console", plan: "Plan") -> int:
    """Say what is not done, and how to go on."""
    left = len(plan.all) - plan.counts()["done"]
    if not left:
        # The report has said which searches came to nothing; their entries have no runs at all.
        return RUNS_FAILED if any(ledger.best is None for ledger in plan.searches) else 0
    are = "is" if left == 1 else "are"
    console.print(
        f"{left} of {len(plan.all)} runs {are} not done: bench status {plan.study.name} says why; "
        "the same command tries what was lost again, --retry-failed all"
    )
    return RUNS_FAILED


@contextmanager
def _answering(executor: "Executor", study: str) -> Iterator[None]:
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
        del number, frame
        if executor.stopping:
            raise KeyboardInterrupt
        executor.stop()

    before = {number: signal.signal(number, answer) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _again() -> str:
    """The same command; its options decide, too, whether a checkpoint can be gone on from."""
    from lightning_bench.bench.store import provenance

    return shlex.join(["bench", *provenance.command_line()[1:]])
