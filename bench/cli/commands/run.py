"""`bench run`: do what the plan lacks, then print the table."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightning_bench.bench.cli import interruption, looks, preflight
from lightning_bench.bench.cli.options import (
    DEFAULT_STORE,
    ClusterSettings,
    DataRoot,
    DeviceOption,
    Devices,
    Jobs,
    Scale,
    Settings,
    StoreFolder,
    StudyName,
    default_jobs,
    length_of_time,
    make_plan,
    open_study,
    use_data_root,
)
from lightning_bench.bench.cli.runner import Engine, Runner, lacks_runs
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.devices import demand, unused_accelerator
from lightning_bench.bench.execute.job import Device, Execution, Strategy
from lightning_bench.common.messages import nearest

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from rich.console import Console

    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.study import Study
    from lightning_bench.bench.tracking.mirror import Mirror
    from lightning_bench.reports.report import Report

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
    devices: Devices = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads of a device; by default the page's.")
    ] = None,
    device: DeviceOption = "auto",
    strategy: Annotated[
        Strategy, typer.Option(help="How several devices share a run; fsdp for giant models.")
    ] = "ddp",
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the models.")] = False,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0.01, help="The longest time between two checkpoints.")
    ] = 10.0,
    stall: Annotated[
        float | None,
        typer.Option(
            parser=length_of_time,
            metavar="TIME",
            help="End a run without a sign of life for so long (15m); else by its own pace.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            parser=length_of_time,
            metavar="TIME",
            help="End an attempt at a run after so long (2h).",
        ),
    ] = None,
    launcher: Annotated[
        Engine,
        typer.Option(
            help="Where runs are started: here, or as jobs of SLURM.", envvar="BENCH_LAUNCHER"
        ),
    ] = "local",
    cluster: ClusterSettings = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed runs again, too.")
    ] = False,
    add_probabilities: Annotated[
        bool,
        typer.Option(
            "--add-probabilities",
            help="Run again, too, what is done but kept no class probabilities.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show failures alone, then the tables.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show each start and epoch, too.")
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Send results to wandb, tensorboard or csv, too.", envvar="BENCH_TRACK"),
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

    Finished runs are kept: after an interruption the same command goes on. A study with several
    looks stops at the first that decides all that it claims.
    """
    _check_options(track or (), quiet=quiet, verbose=verbose)
    use_data_root(data_root)
    study, opened = open_study(name, scale, settings, store, cluster)
    options = _RunOptions(
        store, settings or [], jobs, devices, threads, device, strategy, compiled,
        checkpoint_minutes, stall, time_limit, launcher, retry_failed, add_probabilities, quiet,
        verbose, track, storage,
    )  # fmt: skip
    following: Study | None = study
    code = 0
    while following is not None:
        code, following = _run_to_look(following, opened, options)
    return code


@dataclass(frozen=True)
class _RunOptions:
    """The command's options, for one look after the other."""

    store: Path
    settings: list[str]
    jobs: int | None
    devices: int | None
    threads: int | None
    device: Device
    strategy: Strategy
    compiled: bool
    checkpoint_minutes: float
    stall: float | None
    time_limit: float | None
    launcher: Engine
    retry_failed: bool
    add_probabilities: bool
    quiet: bool
    verbose: bool
    track: list[str] | None
    storage: str | None


def _run_to_look(
    study: "Study", opened: "Store", options: _RunOptions
) -> "tuple[int, Study | None]":
    """Run and report the study as it is at one look; the exit code, and the study at the next."""
    plan = make_plan(study, opened)
    if decided := looks.already_decided(plan, opened):
        plan = make_plan(study := decided, opened)
    if options.add_probabilities:
        plan = _adding_probabilities(plan)
    from lightning_bench.bench.cli.console import PlainConsole

    console = PlainConsole()
    has_work = plan.searching or lacks_runs(plan, retry_failed=options.retry_failed)
    if has_work:
        local = options.launcher == "local"
        devices = options.devices or study.devices
        execution = Execution(
            device=preflight.device_of(options.device, study.cluster, local=local),
            devices=(devices or 1) if local else study.cluster.devices(devices),
            threads=options.threads or study.threads,
            strategy=options.strategy,
            compile=options.compiled,
            checkpoint_s=60 * options.checkpoint_minutes,
            keep_probabilities=study.predictions == "probabilities",
            stall_s=options.stall or study.stall,
            time_limit_s=options.time_limit or study.time_limit,
        )
        if local and options.device == "auto" and execution.device == "cpu":
            _announce_unused(console, quiet=options.quiet)
        from lightning_bench.bench.plan.plan import expecting

        room = demand(execution.device, execution.devices, execution.threads) if local else _QUEUE
        runner = Runner(
            console,
            opened,
            execution,
            options.launcher,
            options.jobs or room,
            options.retry_failed,
            options.quiet,
            options.verbose,
            options.add_probabilities,
        )
        preflight.demand_fit(plan, execution, local=local)
        plan = expecting(plan, execution.device, execution.devices)
        preflight.demand_inputs(plan)
        optuna_storage = _connect(options.storage, plan, opened) if plan.searching else None
        opened.prepare()
    with _tracking(options.track if has_work else None, console, opened, plan) as mirror:
        if has_work:
            try:
                plan = runner.execute(plan, optuna_storage, mirror)
            except KeyboardInterrupt:
                if mirror is not None:
                    mirror.hurry()
                reached = f"stopped: {_reached(make_plan(study, opened))}"
                return _interrupted(console, reached), None
            except OSError as error:
                what = f"{error.strerror}; finished runs are kept, the same command goes on"
                raise OSError(error.errno, what, str(options.store)) from None
        if study.measure is not None:
            from lightning_bench.bench.cli import measure_display

            try:
                measure_display.for_study(console, opened, plan, options.device)
            except KeyboardInterrupt:
                stopped = "stopped while measuring: no measurement is kept"
                return _interrupted(console, stopped), None
        target, report = _show_report(
            console, opened, plan, options.settings, tracked=mirror is not None
        )
        if mirror is not None:
            mirror.reported(target)
    jobs = options.jobs or default_jobs(study)
    following, line = looks.next_look(study, report, plan, jobs)
    if line:
        console.print(line, soft_wrap=True)
    return (0 if following else _left(console, plan)), following


def _adding_probabilities(plan: "Plan") -> "Plan":
    """The plan with the runs again that kept none, unless the page would keep none again."""
    from lightning_bench.bench.plan.plan import adding_probabilities

    if plan.study.predictions == "labels":
        raise UserError(
            "--add-probabilities: the page keeps labels alone; --set predictions=probabilities"
        )
    return adding_probabilities(plan)


def _announce_unused(console: "Console", *, quiet: bool) -> None:
    """Say why `auto` is the CPU where there is an accelerator."""
    if not quiet and (line := unused_accelerator()):
        console.print(line, soft_wrap=True)


def _check_options(trackers: Sequence[str], *, quiet: bool, verbose: bool) -> None:
    from lightning_bench.bench.tracking import TRACKERS

    for tracker in trackers:
        if tracker not in TRACKERS:
            raise UserError(f"unknown tracker {tracker!r}{nearest(tracker, TRACKERS)}")
    if quiet and verbose:
        raise UserError("--quiet and --verbose exclude each other")


def _connect(storage: str | None, plan: "Plan", store: "Store") -> "BaseStorage":
    """Open where a search keeps its Optuna studies; a storage out of reach is an error at once."""
    from lightning_bench.bench.search.optuna_storage import connect
    from lightning_bench.bench.study import search_cell

    if storage is None:
        store.prepare()
    return connect(storage, search_cell.searches(store.root, plan.study.name_at_scale))


@contextmanager
def _tracking(
    trackers: list[str] | None, console: "Console", store: "Store", plan: "Plan"
) -> "Iterator[Mirror | None]":
    """Pass on to trackers what happens; however it ends, they finish, and what they say is shown.

    A mirror left open would keep this process from ending: its queue waits until all is read.
    """
    if not trackers:
        yield None
        return
    from lightning_bench.bench.tracking.mirror import Mirror

    mirror = Mirror(trackers, store.root, plan.study)
    try:
        yield mirror
    finally:
        for line in mirror.close():
            console.print(line, soft_wrap=True)


def _show_report(
    console: "Console", store: "Store", plan: "Plan", settings: list[str], *, tracked: bool
) -> "tuple[Path, Report]":
    """Print the report of a plan, making its files where they are not current."""
    from lightning_bench.bench.cli import build_report
    from lightning_bench.reports.render import terminal
    from lightning_bench.reports.render.write import FORMATS, TRACKED

    target = build_report.folder(plan.study, store, settings)
    report = build_report.make(
        plan,
        store,
        target,
        TRACKED if tracked else FORMATS,
        show=lambda report: console.print(terminal.render(report)),
    )
    console.print(f"\nreport: {target}/report.html (.md .tex .csv .parquet .json)", soft_wrap=True)
    return target, report


def _reached(plan: "Plan") -> str:
    """How far a study is that was stopped."""
    if plan.searching:
        over = sum(len(ledger.trials) for ledger in plan.searches)
        wanted = sum(ledger.budget.trials for ledger in plan.searches)
        return f"{over} of {wanted} trials are finished and kept"
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
        'the same command tries lost runs again, or, with "--retry-failed", every failed run'
    )
    return RUNS_FAILED


def _interrupted(console: "Console", reached: str) -> int:
    """Say how far it came, and the command that goes on: its options decide what it can resume."""
    from lightning_bench.bench.store import provenance

    same_command = shlex.join(["bench", *provenance.command_line()[1:]])
    console.print(f"{reached}; go on with:")
    console.print(f"  {same_command}", soft_wrap=True)
    return interruption.answer()
