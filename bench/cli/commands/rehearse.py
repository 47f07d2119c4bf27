"""`bench rehearse`: would every run of a study start, train, resume and be tested?"""

import os
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lightning_bench.bench.cli import interruption, options
from lightning_bench.bench.cli.options import echo_json
from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lightning_bench.bench.rehearse.case import Case, Place
    from lightning_bench.bench.rehearse.protocol import Rehearsed
    from lightning_bench.bench.rehearse.session import Results
    from lightning_bench.bench.study.study import Study

Where = Literal["auto", "cpu", "meta"]
FAILED = 3
STYLES = {"ok": "green", "fails": "red", "not rehearsed": "yellow"}


def rehearse_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STUDY…",
            help="Studies' names, or pages.",
            autocompletion=options._complete_study,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All studies, at every scale unless one is named.")
    ] = False,
    scale: options.Scale = None,
    on: Annotated[
        Where,
        typer.Option(help="Where: cpu, meta (no memory); auto: what fits and is quick on the CPU."),
    ] = "auto",
    settings: options.Settings = None,
    data_root: options.DataRoot = None,
    jobs: options.Jobs = None,
    output: options.OutputFormat = "table",
) -> int:
    """Rehearse every distinct run of a study: two steps, a checkpoint, a test, on a few examples.

    At its true shapes, recipe and head. Data and weights that are not at hand are made up. Nothing
    is kept: it is what to do before sending a hundred jobs.
    """
    from lightning_bench.bench.rehearse.case import cases_of
    from lightning_bench.bench.rehearse.session import RehearsalSession
    from lightning_bench.common.machine import usable_cores

    options.use_data_root(data_root)
    cases = cases_of(_studies(names or [], scale, settings or [], every=every))
    if not cases:
        typer.echo("nothing is trained: there is nothing to rehearse")
        return 0
    from lightning_bench.bench.cli.console import Console

    console = Console(stderr=output == "json")
    with _Progress(console, len(cases)) as progress:
        session = RehearsalSession(cases, on, jobs or usable_cores(), progress.tell)
        try:
            results = session.run()
        except KeyboardInterrupt:
            progress.stop()
            console.print("stopped: nothing is kept of a rehearsal")
            return interruption.answer()
    if output == "json":
        echo_json(_row(place, case, results) for case in cases for place in case.places)
    else:
        _show(console, cases, results, progress.seconds)
    return FAILED if any(result.status == "fails" for result in results.values()) else 0


def _studies(
    names: list[str], scale: str | None, settings: list[str], *, every: bool
) -> "list[tuple[Study, str]]":
    """The studies at their scales, each with the folder in which its page looks for models."""
    from lightning_bench import studies
    from lightning_bench.bench.study import load

    if every and names:
        raise UserError("--all rehearses all studies: name none beside it")
    if not every and not names:
        raise UserError("name a study, or --all of them; bench list studies shows them")
    found = []
    for name in studies.pages() if every else names:
        scales = load.scales(load.find(name)) if every else [scale]
        for at in scales:
            if every and scale not in (None, at):
                continue
            os.environ.pop("BENCH_PAGE_FOLDER", None)
            study = load.load(name, at, settings)
            study.resolved  # noqa: B018 - its models are looked for beside this page
            found.append((study, os.environ.get("BENCH_PAGE_FOLDER", "")))
    return found


class _Progress:
    """A bar on a terminal, a line for each failure elsewhere."""

    def __init__(self, console: "Console", total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.console = console
        self._bar = Progress(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("cases, {task.fields[failing]} would fail"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=total, failing=0)
        self._failing = 0

    def __enter__(self) -> "_Progress":
        import time

        self._began = time.monotonic()
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def seconds(self) -> float:
        """Since the start."""
        import time

        return time.monotonic() - self._began

    def stop(self) -> None:
        """Give the terminal back."""
        self._bar.stop()

    def tell(self, case: "Case", result: "Rehearsed") -> None:
        """A case is over."""
        self._failing += result.status == "fails"
        self._bar.update(self._task, advance=1, failing=self._failing)
        if result.status == "fails" and not self.console.is_terminal:
            first = case.places[0]
            line = f"would fail: {first.study} ({first.scale}): {first.title}: {result.cause}"
            self.console.print(line, soft_wrap=True)


def _row(place: "Place", case: "Case", results: "Results") -> dict[str, Any]:
    from dataclasses import asdict

    first = case.places[0]
    result = asdict(results[case.key])
    shared = "" if place == first else f"{first.study} ({first.scale}): {first.title}"
    return {**asdict(place), **result, "shared_with": shared}


def _show(console: "Console", cases: "list[Case]", results: "Results", seconds: float) -> None:
    """The table of each study, then what would fail, and how much of all it is."""
    from rich.table import Table

    from lightning_bench.bench.cli.console import styled

    by_study: dict[tuple[str, str], list[tuple[Place, Case]]] = {}
    for case in cases:
        for place in case.places:
            by_study.setdefault((place.study, place.scale), []).append((place, case))
    for (name, scale), rows in by_study.items():
        console.print(styled(f"{name} ({scale})", "bold"))
        table = Table(box=None, pad_edge=False)
        table.add_column("run", overflow="fold")
        table.add_column("real", overflow="fold")
        table.add_column("result", no_wrap=True)
        table.add_column("s", justify="right", no_wrap=True)
        table.add_column("memory", justify="right", no_wrap=True)
        table.add_column("cause", overflow="fold")
        for place, case in rows:
            table.add_row(*_cells(place, case, results[case.key]))
        console.print(table)
        console.print()
    counts = Counter[str](results[case.key].status for case in cases for _ in case.places)
    told = ", ".join(f"{counts[status]} {status}" for status in STYLES if counts[status])
    where = Counter(result.on for result in results.values() if result.on)
    places = ", ".join(
        f"{where[name]} on {_WHERE[name]}" for name in ("cpu", "meta") if where[name]
    )
    distinct = f"{len(cases)} distinct: {places}"
    console.print(f"{sum(counts.values())} runs: {told} ({distinct}); {duration(seconds)}")


_WHERE = {"cpu": "the CPU", "meta": "the meta device"}


def _cells(place: "Place", case: "Case", result: "Rehearsed") -> "tuple[str | Text, ...]":
    from lightning_bench.bench.cli.console import styled
    from lightning_bench.data.progress import size

    shown = f"ok ({result.on})" if result.status == "ok" else result.status
    first = place == case.places[0]
    memory = size(result.peak_bytes) if result.peak_bytes else ""
    return (
        place.title,
        result.real or "nothing",
        styled(shown, STYLES[result.status]),
        f"{result.seconds:.1f}" if first else "shared",
        f"{'' if result.measured else '~'}{memory}" if memory else "",
        result.cause,
    )
