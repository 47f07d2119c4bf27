"""`bench cancel`: have a study, or one run of it, leave checkpoints and end, wherever it runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from lightning_bench import studies
from lightning_bench.bench.cli.find_run import find
from lightning_bench.bench.cli.options import (
    DEFAULT_STORE,
    Scale,
    Settings,
    StoreFolder,
    make_plan,
    open_study,
)
from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import nearest

if TYPE_CHECKING:
    from lightning_bench.bench.store.store import Store


def cancel_command(
    what: Annotated[
        str,
        typer.Argument(
            metavar="STUDY|RUN",
            help="A study, the beginning of a key, or words as in lenet/digits/0.",
        ),
    ],
    scale: Scale = None,
    settings: Settings = None,
    store: StoreFolder = DEFAULT_STORE,
) -> None:
    """Ask a study or a run to leave a checkpoint and end; the same `bench run` goes on from there.

    It reaches runs and their parents on every host that shares the store, and a cluster's queue.
    """
    from lightning_bench.bench.execute.slurm import queued
    from lightning_bench.bench.store.store import Store

    opened = Store(store)
    name = ""
    if what in studies.pages() or what.endswith((".yaml", ".yml")):
        study, opened = open_study(what, scale, settings, store)
        name = f"{study.name}-{study.scale}"
        keys = {planned.key for planned in make_plan(study, opened).all}
        if opened.runs.is_dir():
            opened.cancel(name)
    else:
        keys = {_find(opened, what)}
    jobs = [
        job for job in queued(opened) if not job.over and (job.key in keys or job.study == name)
    ]
    running = [
        attempt
        for attempt in opened.scan(keys | {job.key for job in jobs}).values()
        if attempt.state == "running"
    ]
    for attempt in running:
        opened.request(attempt.folder, "stop")
    waiting = [job for job in jobs if job.key not in {attempt.key for attempt in running}]
    for job in waiting:
        job.cancel()
    typer.echo(_summary(len(running), len(waiting)) or f"nothing of {what} is running")


def _summary(running: int, waiting: int) -> str:
    parts = []
    if running:
        runs = "1 run" if running == 1 else f"{running} runs"
        parts.append(f"asked {runs} to leave a checkpoint and end")
    if waiting:
        jobs = "1 job" if waiting == 1 else f"{waiting} jobs"
        parts.append(f"took {jobs} out of the queue")
    return "; ".join(parts)


def _find(store: "Store", what: str) -> str:
    try:
        return find(store, what)
    except UserError:
        near = nearest(what, studies.pages())
        if "did you mean" in near:
            raise UserError(f"no study or run is called {what!r}{near}") from None
        raise
