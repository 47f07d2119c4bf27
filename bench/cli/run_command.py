"""`bench run`: do what the plan lacks, then print the table."""

import signal
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bench.cli.options import (
    DEFAULT_STORE,
    Jobs,
    Scale,
    Settings,
    StoreFolder,
    StudyName,
    default_jobs,
    duration,
    make_plan,
    open_study,
)
from bench.order import Device

if TYPE_CHECKING:
    from rich.console import Console

    from bench.plan import Plan
    from bench.store import Store

INTERRUPTED = 130
RUNS_FAILED = 3


def run_command(
    name: StudyName,
    scale: Scale = None,
    settings: Settings = None,
    store: StoreFolder = DEFAULT_STORE,
    jobs: Jobs = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads of a run; by default the page's.")
    ] = None,
    device: Annotated[Device, typer.Option(help="Where to train.")] = "auto",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed runs again, too.")
    ] = False,
) -> int:
    """Run what is missing of a study, and print its tables.

    Finished runs are kept: after an interruption the same command goes on.
    """
    study, opened = open_study(name, scale, settings, store)
    plan = make_plan(study, opened)
    from rich.console import Console

    console = Console(highlight=False)
    if plan.to_run(retry_failed=retry_failed) or plan.counts()["running"]:
        threads = threads or study.threads
        jobs = jobs or default_jobs(threads, device)
        opened.prepare()
        try:
            _execute(console, opened, plan, jobs, threads, device, retry_failed=retry_failed)
        except KeyboardInterrupt:
            done = make_plan(study, opened).counts()["done"]
            console.print(f"stopped: {done} of {len(plan.runs)} runs are done and kept; go on with")
            console.print(f"  {_again(name, scale, settings, store)}", markup=False, soft_wrap=True)
            return INTERRUPTED
        except OSError as error:
            raise OSError(
                error.errno,
                f"{error.strerror}; finished runs are kept, the same command goes on",
                str(store),
            ) from None
        plan = make_plan(study, opened)
    return show_report(console, opened, plan, settings or [])


def show_report(console: "Console", store: "Store", plan: "Plan", settings: list[str]) -> int:
    """Print the report of a plan, making its files where they are not current."""
    from bench.cli import reporting
    from reports import terminal

    target = reporting.folder(plan.study, store, settings)
    console.print(terminal.render(reporting.make(plan, store, target)))
    console.print(f"\nreport: {target}/report.html (.md .tex .csv .json)", soft_wrap=True)
    left = len(plan.runs) - plan.counts()["done"]
    if left:
        are = "is" if left == 1 else "are"
        console.print(
            f"{left} of {len(plan.runs)} runs {are} not done: bench status {plan.study.name} says "
            "why; the same command tries what was lost again, --retry-failed all"
        )
    return RUNS_FAILED if left else 0


def _execute(
    console: "Console",
    store: "Store",
    plan: "Plan",
    jobs: int,
    threads: int,
    device: Device,
    *,
    retry_failed: bool,
) -> None:
    import models.catalogue
    from bench.cli.display import Display
    from bench.executor import Executor

    to_run = plan.to_run(retry_failed=retry_failed)
    running = plan.running()
    jobs = max(1, min(jobs, len(to_run)))
    modules = sorted({models.catalogue.find(p.run.spec.model.name).module for p in to_run})
    # A `kill` is answered like Ctrl-C: stop the workers, say how to go on.
    signal.signal(signal.SIGTERM, _interrupt)
    left_s = sum(planned.expected_s for planned in to_run) / jobs
    console.print(
        f"{plan.study.name} ({plan.study.scale}): {len(to_run)} of {len(plan.runs)} runs to do, "
        f"{jobs} at a time, about {duration(left_s)}"
    )
    with Display(console, to_run + running, jobs) as display:
        Executor(store, jobs, threads, device, display, modules).run(to_run, running)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def _again(name: str, scale: str | None, settings: list[str] | None, store: object) -> str:
    words = ["bench run", name]
    if scale:
        words += ["--scale", scale]
    for setting in settings or ():
        words += ["--set", setting]
    if store != DEFAULT_STORE:
        words += ["--store", str(store)]
    return " ".join(words)
