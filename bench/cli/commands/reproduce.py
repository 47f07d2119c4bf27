"""`bench reproduce`: run a finished run again, and say whether it came out equal bit for bit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightning_bench.bench.cli.options import DEFAULT_STORE, StoreFolder
from lightning_bench.bench.errors import UserError

if TYPE_CHECKING:
    from lightning_bench.bench.store.record import Environment, Record
    from lightning_bench.bench.store.store import Store

DIFFERENT = 3


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


def _run_again(before: "Record", store: "Store") -> "Record":
    """Run a spec in a store beside the store, on as many devices and in the same way."""
    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.cli.live_display import RunDisplay
    from lightning_bench.bench.execute.devices import demand, demand_compiler
    from lightning_bench.bench.execute.executor import Executor, RunList
    from lightning_bench.bench.execute.local import Local
    from lightning_bench.bench.execute.reproduction import execution_of
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
    execution = execution_of(before.provenance)
    demand(execution.device, execution.devices, execution.threads)
    if execution.compile and execution.device == "cpu":
        demand_compiler()
    with RunDisplay(Console(highlight=False, stderr=True), [planned], 1) as display:
        Executor(beside, Local(1, execution.device), execution, [display]).run(RunList([planned]))
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

    environments = {}
    for record in records:
        digest = record.provenance.environment
        for place in (store, Store(store.root / "reproductions")):
            environment = place.read_environment(digest) if digest else None
            if digest and environment:
                environments[digest] = environment
    return environments
