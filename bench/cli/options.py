"""Arguments and options that several commands share, and what they open."""

import gc
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lightning_bench.common.messages import seconds

if TYPE_CHECKING:
    from lightning_bench.bench.execute.job import DeviceType
    from lightning_bench.bench.plan.expected_times import Estimates
    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.study import Study


#: How a listing is printed.
Format = Literal["table", "json"]


def _complete_study(incomplete: str) -> list[str]:
    from lightning_bench import studies

    return [name for name in studies.pages() if name.startswith(incomplete)]


def _complete_name(incomplete: str) -> list[str]:
    from lightning_bench import studies
    from lightning_bench.data import catalogue as data_catalogue
    from lightning_bench.models.registry import catalogue as model_catalogue

    names = [*studies.pages(), *model_catalogue.entries(), *data_catalogue.entries()]
    return [name for name in names if name.startswith(incomplete)]


StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY", help="A study's name, or a page.yaml.", autocompletion=_complete_study
    ),
]
AnyName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A study, a model or a data set.", autocompletion=_complete_name
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(help="smoke, small or full; by default the smallest that the page has."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the page, as in recipe.epochs=3."),
]
ClusterSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster", metavar="KEY=VALUE", help="Change the page's cluster, as in partition=gpu."
    ),
]
StoreFolder = Annotated[
    Path, typer.Option("--store", envvar="BENCH_STORE", help="The folder of all results.")
]


def _parse_device(word: str) -> str:
    from lightning_bench.bench.execute.devices import parse_device

    return parse_device(word)


DeviceOption = Annotated[
    Any,
    typer.Option(
        metavar="auto|cpu|cuda", help="Which device to use; auto: a GPU if there is one.",
        parser=_parse_device,
    ),
]  # fmt: skip
PlannedDevice = Annotated[
    Any,
    typer.Option(
        metavar="auto|cpu|cuda",
        help="The device to tell the time for; by default that of the last run.",
        parser=_parse_device,
    ),
]
Devices = Annotated[
    int | None, typer.Option(min=1, help="Devices of a run; by default the page's.")
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, help="Runs at a time; by default as many as the cores (or GPUs) have room for."
    ),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        envvar="BENCH_DATA", help="A mirror of data sets, laid out like the hub's repositories."
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="How to print it.")]

DEFAULT_STORE = Path("bench-store")


def open_study(
    name: str,
    scale: str | None,
    settings: list[str] | None,
    store: Path,
    cluster: list[str] | None = None,
) -> tuple["Study", "Store"]:
    """Load a study, at the look it is at, and name its store; nothing is written."""
    from lightning_bench.bench.cli import looks
    from lightning_bench.bench.errors import UserError
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.load import load

    if store.exists() and not store.is_dir():
        raise UserError(f"--store {store} is not a folder")
    opened = Store(store)
    return looks.in_progress(load(name, scale, settings or (), cluster or ()), opened), opened


def use_data_root(folder: Path | None) -> None:
    """Let all that loads data, workers too, look into this mirror first."""
    from lightning_bench.bench.errors import UserError

    if folder is None:
        return
    if not folder.is_dir():
        raise UserError(f"--data-root {folder} is not a folder")
    os.environ["BENCH_DATA"] = str(folder.resolve())


def make_plan(
    study: "Study",
    store: "Store",
    estimates: "Estimates | None" = None,
    *,
    elsewhere: bool = False,
    on_devices: tuple[str, int] | None = None,
) -> "Plan":
    """The study's plan as of now; times are estimates alone where it is to run `elsewhere`."""
    from lightning_bench.bench.plan import plan, source_digests
    from lightning_bench.bench.search import ledger

    with _garbage_collection_paused():
        folders = ledger.search_folders(study.cells(), store.root)
        searches = [folder.ledger(source_digests.of_run(folder.cell.base)) for folder in folders]
        runs, before = study.runs(ledger.chosen(searches)), study.before()
        attempts = store.scan(run.key for run in (*before, *runs))
        return plan.make(
            study,
            runs,
            attempts,
            source_digests.of_run,
            searches,
            before,
            estimates,
            elsewhere=elsewhere,
            on_devices=on_devices,
        )


def demand_attempts(plan: "Plan", store: "Store") -> None:
    """Raise a UserError unless a run of the study was tried."""
    from lightning_bench.bench.errors import UserError

    if all(planned.attempt is None for planned in plan.runs):
        name = plan.study.name
        raise UserError(f"{store.root} has no run of {name} yet: first bench run {name}")


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """No garbage collection now, nor ever of what is made meanwhile: records, which are kept.

    To walk ten thousand of them takes half as long as to read them.
    """
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():  # once, since what is garbage by then is kept, too
            gc.freeze()
        gc.enable()


def default_jobs(
    study: "Study", device: "DeviceType | None" = None, devices: int | None = None
) -> int:
    """How many runs of a study go side by side here, unless said otherwise on what is here."""
    from lightning_bench.bench.execute.devices import likely_room, room

    devices = devices or study.devices or 1
    if device == "cpu":
        return max(1, room(device, devices, study.threads))
    return max(1, likely_room(devices, study.threads))


def echo_json(rows: Iterable[dict[str, Any]]) -> None:
    """Print a list of objects as JSON."""
    typer.echo(json.dumps(list(rows), indent=2, ensure_ascii=False))


def length_of_time(text: str) -> float:
    """The seconds of an option such as `15m`."""
    try:
        return seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
