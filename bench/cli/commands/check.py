"""`bench check` and `bench reproduce`: can the records be trusted, and do they come out again?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightning_bench.bench.cli.options import (
    DEFAULT_STORE,
    Format,
    OutputFormat,
    Scale,
    Settings,
    StoreFolder,
    StudyName,
    echo_json,
    make_plan,
    open_study,
)
from lightning_bench.bench.errors import UserError

if TYPE_CHECKING:
    from lightning_bench.bench.plan.rules import Printed
    from lightning_bench.bench.store.record import Environment, Record
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.study import Study

BROKEN = 3


def check_command(
    name: StudyName,
    scale: Scale = None,
    settings: Settings = None,
    store: StoreFolder = DEFAULT_STORE,
    output: OutputFormat = Format.TABLE,
) -> int:
    """Check a study's records against the rules that make its table honest; for CI."""
    study, opened = open_study(name, scale, settings, store)
    from lightning_bench.bench.plan.rules import RULES_VERSION, check

    results = check(make_plan(study, opened), _printed(study))
    broken = sum(bool(breaches) for _, breaches in results)
    if output is Format.JSON:
        echo_json(
            {
                "name": rule.name,
                "since": rule.since,
                "demands": rule.demands,
                "kept": not breaches,
                "breaches": breaches,
            }
            for rule, breaches in results
        )
        return BROKEN if broken else 0
    from lightning_bench.bench.cli.console import Console

    console = Console(highlight=False)
    for rule, breaches in results:
        state = "[red]broken[/]" if breaches else "[green]kept[/]  "
        console.print(f"{state}  {rule.name}: {rule.demands}", soft_wrap=True)
        for breach in breaches[:5]:
            console.print(f"        {breach}", markup=False, soft_wrap=True)
        if len(breaches) > 5:
            console.print(f"        and {len(breaches) - 5} more (--format json has all)")
    verdict = f"{broken} of {len(results)} rules are broken" if broken else "all rules are kept"
    console.print(f"\n{study.name} ({study.scale}), rules {RULES_VERSION}: {verdict}")
    return BROKEN if broken else 0


def _printed(study: "Study") -> "list[Printed]":
    """What is printed of each entry: in the row it reproduces, else the best in the column."""
    from lightning_bench.bench.cli import build_report
    from lightning_bench.bench.plan.rules import Printed
    from lightning_bench.data import catalogue as data_catalogue
    from lightning_bench.reports.report import PERCENT

    rows = build_report.published(study)
    found = []
    for name, dataset in study.datasets().items():
        for metric in dataset.metrics:
            higher = data_catalogue.HIGHER_IS_BETTER.get(metric, True)
            scale = 100.0 if metric in PERCENT else 1.0
            here = [
                (cell.value / scale, row)
                for row in rows
                if (cell := row.cells.get(f"{name}/{metric}")) and cell.value is not None
            ]
            for label, entry in study.entries.items():
                own = [pair for pair in here if pair[1].label == entry.published]
                if known := own or here:
                    best = max if higher else min
                    value, row = best(known, key=lambda pair: pair[0])
                    found.append(Printed(label, name, metric, value, higher, row.cite))
    return found


def reproduce_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's key, or its beginning.")],
    store: StoreFolder = DEFAULT_STORE,
) -> int:
    """Run a finished run again and say whether it came out equal; the store's record stays."""
    from lightning_bench.bench.execute.reproduction import compare
    from lightning_bench.bench.store.store import Store

    opened = Store(store)
    before = _find(opened, run)
    after = _run_again(before, opened)
    if after.failure:
        typer.echo(f"failed this time: {after.failure.kind}: {after.failure.message}")
        return BROKEN
    found = compare(before, after, _environments(opened, before, after))
    typer.echo(f"{before.key}: {found.verdict}")
    for metric, (was, now) in found.moved.items():
        typer.echo(f"  {metric}: {was!r} → {now!r}")
    if found.circumstances:
        typer.echo("not as it was:")
        for circumstance in found.circumstances:
            typer.echo(f"  {circumstance}")
    return BROKEN if found.verdict == "different" else 0


def _find(store: "Store", prefix: str) -> "Record":
    """The finished run whose key begins so."""
    keys = sorted({key for key, _ in store.attempts() if key.startswith(prefix)})
    if len(keys) != 1:
        what = "no run" if not keys else f"{len(keys)} runs"
        raise UserError(f"{store.root} has {what} whose key begins with {prefix!r}")
    attempt = store.scan(keys)[keys[0]]
    if attempt.record is None or attempt.record.status != "done":
        raise UserError(f"the run {keys[0]} has no finished record to reproduce")
    return attempt.record


def _run_again(before: "Record", store: "Store") -> "Record":
    """Run a spec in a store beside the store, with the same number of threads."""
    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.cli.live_display import Display
    from lightning_bench.bench.execute.executor import Executor, Listed
    from lightning_bench.bench.execute.job import Device, Execution
    from lightning_bench.bench.execute.local import Local
    from lightning_bench.bench.plan import source_digests
    from lightning_bench.bench.plan.plan import PlannedRun
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.study import Run

    beside = Store(store.root / "reproductions")
    beside.prepare()
    attempt = beside.scan([before.key]).get(before.key)
    spec = before.spec
    planned = PlannedRun(
        run=Run(spec.model.name, spec.data.name, spec),
        state="missing",
        reason="to be reproduced",
        expected_s=before.cost.total_s if before.cost else 60.0,
        attempt=attempt,
        sources=source_digests.of_run(spec),
        keep_weights=before.weights is not None,
        start=_start_of(before, store),
    )
    device: Device = "cuda" if before.provenance.device == "cuda" else "cpu"
    execution = Execution(device=device, threads=before.provenance.threads)
    with Display(Console(highlight=False, stderr=True), [planned], 1) as display:
        Executor(beside, Local(1, device), execution, [display]).run(Listed([planned]))
    record = beside.scan([before.key])[before.key].record
    assert record is not None
    return record


def _start_of(before: "Record", store: "Store") -> Path | None:
    """The attempt whose weights the run started from."""
    if before.start is None or not before.start.key:
        return None
    attempt = store.read(before.start.key, before.start.attempt)
    if not attempt.kept:
        raise UserError(
            f"the weights that {before.key} started from, those of attempt {attempt.number} at "
            f"{attempt.key}, are not there any more"
        )
    return attempt.folder


def _environments(store: "Store", *records: "Record") -> "dict[str, Environment]":
    from lightning_bench.bench.store.store import Store

    found = {}
    for record in records:
        digest = record.provenance.environment
        for place in (store, Store(store.root / "reproductions")):
            environment = place.read_environment(digest) if digest else None
            if digest and environment:
                found[digest] = environment
    return found
