"""`bench measure`: what models cost, with the evidence."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lightning_bench.bench.cli import interruption
from lightning_bench.bench.cli.options import (
    DEFAULT_STORE,
    DeviceOption,
    Settings,
    StoreFolder,
    _complete_name,
    echo_json,
)
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.job import Device
from lightning_bench.bench.spec import Precision
from lightning_bench.common.messages import nearest

if TYPE_CHECKING:
    from lightning_bench.bench.store.measurements import Contender, Session, Setting
    from lightning_bench.reports.report import Table

Format = Literal["table", "json", "markdown"]
FAILED = 3
#: Examples a step where nobody says how many.
BATCH = {"cpu": 4, "cuda": 64}
MODES = ("infer", "train")


def measure_command(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL…",
            help="Names of models, as bench list models shows them.",
            autocompletion=_complete_name,
        ),
    ] = None,
    batch_size: Annotated[
        str, typer.Option(metavar="N|max", help="Examples a step; 4 on a CPU, 64 on a GPU.")
    ] = "",
    precision: Annotated[Precision, typer.Option(help="fp32, tf32, or autocast.")] = "fp32",
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the models.")] = False,
    device: DeviceOption = "auto",
    devices: Annotated[
        int,
        typer.Option(min=1, help="Measure on so many at once, too, with the scaling efficiency."),
    ] = 1,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of a device's process.")] = 1,
    mode: Annotated[
        str, typer.Option(help="infer, train, both as infer,train; count takes no time at all.")
    ] = "infer",
    settings: Settings = None,
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=V1,V2,…", help="Measure at several values, and fit how the cost grows."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short warm-up, short blocks.")] = False,
    rounds: Annotated[int, typer.Option(min=30, help="Timed blocks of each model.")] = 30,
    store: StoreFolder = DEFAULT_STORE,
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = "table",
) -> int:
    """Measure what models cost: parameters, FLOPs, speed, latency, memory, energy.

    The models take turns, each in a process of its own; raw samples are kept in the store.
    `--mode count` counts alone, all models where none is named. --set and --vary take arguments
    of the models, as in --vary image_size=64,128,256.
    """
    from lightning_bench.bench.cli import measure_display
    from lightning_bench.bench.store.store import Store

    if store.exists() and not store.is_dir():
        raise UserError(f"--store {store} is not a folder")
    if mode == "count":
        _print(output, None, _counted(models or [], settings or [], vary))
        return 0
    if not models:
        raise UserError("name at least one model; bench list models shows them")
    asked, varied = _asked(
        _contenders(models, settings or [], vary),
        _settings(batch_size, precision, compiled, device, devices, threads, mode),
        vary,
    )
    from lightning_bench.bench.cli.console import Console

    # The result alone goes to the output where a program reads it.
    console = Console(stderr=output != "table")
    opened = Store(store)
    opened.prepare()
    options = measure_display.MeasureOptions(
        quick=quick,
        rounds=rounds,
        title=f"Measured: {', '.join([*models, *(settings or [])])}",
        varied=varied,
        search_batch=batch_size == "max",
    )
    try:
        session = measure_display.measure(console, opened, asked, options)
    except KeyboardInterrupt:
        console.print("stopped: no measurement is kept")
        return interruption.answer()
    _print(output, session, _tables(session))
    _draw(console, opened.root, session)
    return FAILED if any(m.failure for m in session.measurements) else 0


def _settings(
    batch_size: str,
    precision: Precision,
    compiled: bool,
    device: Device,
    devices: int,
    threads: int,
    mode: str,
) -> "list[Setting]":
    """A setting for each mode, and where there are several devices, for one and for all."""
    from lightning_bench.bench.execute import devices as host_devices
    from lightning_bench.bench.store.measurements import Setting
    from lightning_bench.bench.study.compatibility import unfit_precision

    where = host_devices.resolve(device)
    host_devices.demand(where, devices, threads)
    problem = unfit_precision(precision, where)
    if not problem and where == "cuda":
        problem = host_devices.unfit_cards(precision)
    if problem:
        raise UserError(f"--{problem}")
    if compiled:
        host_devices.demand_compiler(where)
    wanted = [word.strip() for word in mode.split(",")]
    for word in wanted:
        if word not in MODES:
            raise UserError(f"--mode {word}: unknown{nearest(word, (*MODES, 'count'))}")
    if batch_size not in ("", "max") and not (batch_size.isdigit() and int(batch_size)):
        raise UserError(f"--batch-size {batch_size}: a number of examples, or max")
    size = int(batch_size) if batch_size.isdigit() else BATCH[where]
    return [
        Setting.model_validate(
            {
                "mode": word,
                "batch_size": size,
                "precision": precision,
                "compile": compiled,
                "device": where,
                "devices": number,
                "threads": threads,
            }
        )
        for word in dict.fromkeys(wanted)
        for number in dict.fromkeys([1, devices])
    ]


def _contenders(names: list[str], settings: list[str], vary: str | None) -> "list[Contender]":
    """The models with their arguments, checked; a model named twice is measured twice."""
    given = dict(_pair("--set", text) for text in settings)
    key, values = _pair("--vary", vary) if vary else ("", "")
    sizes = [{key: size} for size in str(values).split(",")] if vary else [{}]
    contenders: list[Contender] = []
    for place, name in enumerate(names):
        again = names[:place].count(name)
        label = f"{name} ({again + 1})" if again else name
        contenders += [_contender(name, label, given, size) for size in sizes]
    return contenders


def _contender(name: str, label: str, given: dict[str, str], size: dict[str, str]) -> "Contender":
    from lightning_bench.bench.store.measurements import Contender
    from lightning_bench.bench.study import page
    from lightning_bench.models.errors import ModelError
    from lightning_bench.models.registry import catalogue as model_catalogue

    values = {key: page.scalar(value) for key, value in (given | size).items()}
    try:
        entry = model_catalogue.find(name)
        arguments = model_catalogue.check_arguments(entry, values)
    except ModelError as error:
        raise UserError(str(error)) from None
    # What was varied stands in the record even where it is the default.
    arguments |= {key: entry.arguments[key].coerce(values[key], name) for key in size}
    varied = "".join(f", {key} {value}" for key, value in size.items())
    return Contender(label=f"{label}{varied}", model=name, args=arguments, family=entry.family)


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key or not value:
        raise UserError(f"{option} {text}: expected KEY=VALUE, as in image_size=128")
    return key, value


def _asked(
    contenders: "list[Contender]", settings: "list[Setting]", vary: str | None
) -> "tuple[list[tuple[Contender, Setting]], str]":
    asked = [(contender, setting) for setting in settings for contender in contenders]
    return asked, vary.partition("=")[0] if vary else ""


def _counted(names: list[str], settings: list[str], vary: str | None) -> "list[Table]":
    """The counts of these models, or of all, without allocating a weight."""
    from lightning_bench.bench.measure import model_counts
    from lightning_bench.models.errors import ModelError
    from lightning_bench.models.registry import catalogue as model_catalogue
    from lightning_bench.reports.tables import scaling, speed

    if vary and not names:
        raise UserError("--vary: name the models that it is an argument of")
    contenders = _contenders(names or list(model_catalogue.entries()), settings, vary)
    try:
        counted = [(c, model_counts.count_apart(c.model, c.args)) for c in contenders]
    except (ModelError, NotImplementedError) as error:
        raise UserError(f"{error}") from None
    table = speed.count_table({contender.label: counts for contender, counts in counted})
    growth = scaling.of_sizes(vary.partition("=")[0], counted) if vary else None
    return [table, *([growth] if growth else [])]


def _tables(session: "Session") -> "list[Table]":
    from lightning_bench.reports.tables import scaling, speed

    growth = scaling.table(session)
    return [*speed.tables(session), *([growth] if growth else [])]


def _print(output: Format, session: "Session | None", tables: "list[Table]") -> None:
    """The tables for a reader, or all numbers for a program."""
    from lightning_bench.reports.tables import scaling

    findings = scaling.findings(session) if session else []
    if output == "json":
        rows: list[dict[str, Any]] = [table.model_dump(mode="json") for table in tables]
        if session:
            rows.append({"session": session.model_dump(mode="json")})
        echo_json(rows)
    elif output == "markdown":
        from lightning_bench.reports.render import markdown

        typer.echo(markdown.tables(tables))
        for line in findings:
            typer.echo(f"- {markdown.escape(line)}")
    else:
        from lightning_bench.bench.cli.console import Console
        from lightning_bench.reports.render import terminal

        console = Console()
        if session:
            console.print(session.title, style="bold")
        console.print(terminal.tables(tables, findings))


def _draw(console: Any, root: Path, session: "Session") -> None:
    """Write the figures of what was varied, and say where everything is."""
    if session.varied:
        from lightning_bench.common.files import write_atomically
        from lightning_bench.reports.figures import draw_speed

        folder = root / "reports" / f"measure-{session.id}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in draw_speed.scalings(session, ("svg", "png")):
            write_atomically(folder / name, content)
        console.print(f"\nfigures: {folder} (.svg .png)", soft_wrap=True)
    console.print(f"\nsamples: {root}/measurements/{session.id}.json", soft_wrap=True)
