"""`bench cancel`: have a study, or one run of it, leave checkpoints and end, wherever it runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from lightning_bench import studies
from lightning_bench.bench.cli import options
from lightning_bench.bench.cli.find_run import find
from lightning_bench.bench.cli.options import make_plan, open_study
from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import counted, nearest

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
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
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
        name = study.name_at_scale
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
    asked = f"asked {counted(running, 'run')} to leave a checkpoint and end" if running else ""
    took = f"took {counted(waiting, 'job')} out of the queue" if waiting else ""
    return "; ".join(filter(None, (asked, took)))


def _find(store: "Store", what: str) -> str:
    try:
        return find(store, what)
    except UserError:
        near = nearest(what, studies.pages())
        if "did you mean" in near:
            raise UserError(f"no study or run is called {what!r}{near}") from None
        raise
