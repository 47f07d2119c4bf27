"""`bench logs`: what a run printed."""

import time
from pathlib import Path
from typing import Annotated

import typer

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

_POLL_S = 0.3


def logs_command(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A key's beginning, or words as in lenet/digits/0.")
    ],
    study: Annotated[
        str | None, typer.Option(help="The study whose entries the words may name.")
    ] = None,
    scale: Scale = None,
    settings: Settings = None,
    store: StoreFolder = DEFAULT_STORE,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Which attempt; by default the newest.")
    ] = None,
    rank: Annotated[int, typer.Option(min=0, help="Which of its ranks.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")
    ] = False,
) -> None:
    """Print the log of a run, with the path of its file first on standard error."""
    from lightning_bench.bench.store.store import Store

    opened = Store(store)
    plan = make_plan(*open_study(study, scale, settings, store)) if study else None
    found = find(opened, run, plan)
    numbers = sorted(number for key, number in opened.attempts() if key == found)
    number = attempt or numbers[-1]
    if number not in numbers:
        tried = ", ".join(map(str, numbers))
        raise UserError(f"the run {found} has no attempt {number}; there is {tried}")
    path = opened.folder(found, number) / (f"log-{rank}.txt" if rank else "log.txt")
    if not path.exists():
        path = store / "jobs" / found / "log.txt"
    if not path.exists() and not follow:
        raise UserError(f"attempt {number} of {found} has printed nothing")
    typer.echo(path, err=True)
    place = _print(path, 0)
    while follow:
        state = opened.read(found, number).state
        time.sleep(_POLL_S)
        place = _print(path, place)
        if state != "running":
            return


def _print(path: Path, place: int) -> int:
    """Print a file from a place on, and return where it ends."""
    try:
        with path.open("rb") as stream:
            stream.seek(place)
            new = stream.read()
    except FileNotFoundError:
        return place
    typer.echo(new.decode(errors="replace"), nl=False)
    return place + len(new)
