"""`bench reproduce`: run a finished run again, and say whether it came out equal bit for bit."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lightning_bench.bench.cli.options import DEFAULT_STORE, DeviceOption, StoreFolder
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.job import Execution, Strategy

if TYPE_CHECKING:
    from lightning_bench.bench.spec import RunSpec
    from lightning_bench.bench.store.record import Environment, Record
    from lightning_bench.bench.store.store import Store

DIFFERENT = 3


def reproduce_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's key, or its beginning.")],
    store: StoreFolder = DEFAULT_STORE,
    device: DeviceOption = None,
    devices: Annotated[int | None, typer.Option(min=1, help="Devices of the run.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads of a device.")] = None,
    strategy: Annotated[
        Strategy | None, typer.Option(help="How several devices share the run.")
    ] = None,
    compiled: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Compile the model.")
    ] = None,
) -> int:
    """Run a finished run again and say whether it came out equal; the store's record stays.

    It is carried out as the record's was; options change that, and are told as differences.
    """
    from lightning_bench.bench.execute.devices import resolve
    from lightning_bench.bench.execute.reproduction import compare, execution_of
    from lightning_bench.bench.store.store import Store

    opened = Store(store)
    before = _find(opened, run)
    changes: dict[str, Any] = {
        "device": resolve(device) if device else None,
        "devices": devices,
        "threads": threads,
        "strategy": strategy,
        "compile": compiled,
    }
    execution = replace(
        execution_of(before.provenance),
        keep_probabilities=before.probabilities is not None,
        **{name: value for name, value in changes.items() if value is not None},
    )
    try:
        _demand_fit(before.spec, execution)
    except UserError as error:
        where = f"{before.provenance.devices} × {before.provenance.device}"
        raise UserError(f"the run {before.key} was trained on {where}: {error}") from None
    after = _run_again(before, opened, execution)
    if after.failure:
        typer.echo(f"failed this time: {after.failure.kind}: {after.failure.message}")
        return DIFFERENT
    comparison = compare(before, after, _environments(opened, before, after))
    typer.echo(f"{before.key}: {comparison.verdict}")
    for metric, (was, now) in comparison.moved.items():
        typer.echo(f"  {metric}: {was!r} → {now!r}")
    if comparison.circumstances:
        typer.echo("what differs from the first run:")
        for circumstance in comparison.circumstances:
            typer.echo(f"  {circumstance}")
    return DIFFERENT if comparison.verdict == "different" else 0


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


def _demand_fit(spec: "RunSpec", execution: Execution) -> None:
    """Raise a UserError where this host has not what the run is to be carried out with."""
    from lightning_bench.bench.execute.devices import demand, demand_compiler
    from lightning_bench.bench.study.compatibility import unfit_devices

    demand(execution.device, execution.devices, execution.threads)
    problem = unfit_devices(
        spec.recipe,
        device=execution.device,
        devices=execution.devices,
        strategy=execution.strategy,
    )
    if problem:
        raise UserError(problem)
    if execution.compile:
        demand_compiler(execution.device)


def _run_again(before: "Record", store: "Store", execution: Execution) -> "Record":
    """Run a spec in a store beside the store."""
    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.cli.live_display import RunDisplay
    from lightning_bench.bench.execute.executor import Executor, RunList
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
    with RunDisplay(Console(stderr=True), [planned], 1) as display:
        local = Local(1, execution.device, devices_a_run=execution.devices)
        Executor(beside, local, execution, [display]).run(RunList([planned]))
    record = beside.scan([before.key])[before.key].record
    assert record is not None
    return record


def _start_of(before: "Record", store: "Store") -> Path | None:
    """The attempt whose weights the run started from."""
    if before.start is None or not before.start.key:
        return None
    attempt = store.read(before.start.key, before.start.attempt)
    if problem := attempt.weights():
        raise UserError(
            f"the weights that {before.key} started from, those of attempt {attempt.number} at "
            f"{attempt.key}, are {problem}"
        )
    return attempt.folder


def _environments(store: "Store", *records: "Record") -> "dict[str, Environment]":
    from lightning_bench.bench.store.store import Store

    environments = {}
    for record in records:
        digest = record.provenance.environment
        for place in (store, Store(store.root / "reproductions")):
            environment = place.read_environment(digest) if digest else None
            if digest and environment:
                environments[digest] = environment
    return environments
