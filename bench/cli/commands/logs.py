"""`bench logs`: what a run printed."""

import codecs
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from lightning_bench.bench.cli import options
from lightning_bench.bench.cli.find_run import find
from lightning_bench.bench.cli.options import make_plan, open_study
from lightning_bench.bench.errors import UserError
from lightning_bench.common.files import open_regular

_POLL_S = 0.3


def logs_command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The beginning of a key, or words as in lenet/digits/0."
        ),
    ],
    study: Annotated[
        str | None, typer.Option(help="The study whose entries the words may name.")
    ] = None,
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Which attempt; by default the newest.")
    ] = None,
    rank: Annotated[int, typer.Option(min=0, help="Which of its ranks.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until the run has ended.")
    ] = False,
) -> None:
    """Print the log of a run, with the path of its file first on standard error."""
    from lightning_bench.bench.store.store import Store

    opened = Store(store)
    plan = make_plan(*open_study(study, scale, settings, store)) if study else None
    key = find(opened, run, plan)
    numbers = sorted(number for other, number in opened.attempts() if other == key)
    number = attempt or numbers[-1]
    if number not in numbers:
        tried = ", ".join(map(str, numbers))
        raise UserError(f"the run {key} has no attempt {number}; there is {tried}")
    path = opened.folder(key, number) / (f"log-{rank}.txt" if rank else "log.txt")
    if not path.exists():
        path = store / "jobs" / key / "log.txt"
    if not path.exists() and not follow:
        raise UserError(f"attempt {number} of {key} has printed nothing")
    typer.echo(path, err=True)
    log = _Log(path)
    log.print_new()
    while follow:
        state = opened.read(key, number).state
        time.sleep(_POLL_S)
        log.print_new()
        if state != "running":
            break
    log.print_new(final=True)


class _Log:
    """A log file, printed as it grows; a character of several bytes may come in two parts."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def print_new(self, *, final: bool = False) -> None:
        """Print what is new; of a character that is half written, nothing until it is whole."""
        new = b""
        with suppress(FileNotFoundError), open_regular(self.path) as stream:
            stream.seek(self.offset)
            new = stream.read()
        self.offset += len(new)
        typer.echo(self.decoder.decode(new, final), nl=False)
