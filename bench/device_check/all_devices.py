"""Step 7: all devices train one run together, and get what one device gets."""

from collections.abc import Mapping

from lightning_bench.bench.device_check.against_cpu import LOSS
from lightning_bench.bench.device_check.context import CheckContext, demand_done, first_loss
from lightning_bench.bench.device_check.device_report import (
    TRAIN_LOSS,
    Findings,
    Skipped,
    relative,
)
from lightning_bench.bench.device_check.networks import with_recipe
from lightning_bench.bench.execute.job import Strategy
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store import predictions
from lightning_bench.bench.store.record import Record

#: A batch that neither two nor three devices share equally, and its parts.
BATCH, PARTS = 50, 3


def all_devices(check: CheckContext, found: Findings) -> str:
    """Train by DDP in parts of a batch, with batch norm, and by FSDP; compare with one device."""
    if check.devices < 2:
        raise Skipped("there is one device")
    plain = ["MLP"] if check.quick else ["MLP", "ViT"]  # without batch norm
    networks = {name: check.networks[name] for name in ("ResNet", *plain)}
    batch = max(BATCH, PARTS * check.devices)
    in_parts = {
        f"{name} in {PARTS} parts": with_recipe(networks[name], batch_size=batch, accumulate=PARTS)
        for name in plain
    }
    together("DDP", "ddp", check, found, networks | in_parts)
    together("FSDP", "fsdp", check, found, {name: networks[name] for name in plain})
    return (
        f"{check.devices} devices, DDP in {PARTS} parts, batch norm, FSDP: train loss within "
        f"{found.largest('train loss'):.1g} of one device's (≤ {LOSS:g})"
    )


def together(
    title: str,
    strategy: Strategy,
    check: CheckContext,
    found: Findings,
    specs: Mapping[str, RunSpec],
) -> None:
    """Train on one device and on all of them, and compare."""
    alone = check.trained("one-device", specs)
    place = f"all-devices-{strategy}"
    shared = check.train(place, specs, devices=check.devices, strategy=strategy)
    demand_done(alone, check.device)
    demand_done(shared, check.device, check.devices)
    for name, record in shared.items():
        off = relative(first_loss(record), first_loss(alone[name]))
        found.at_most(f"{title}, {name}, {TRAIN_LOSS}, relative", off, LOSS)
        scored = _indices(check, place, record)
        found.expect(
            f"{title}, {name}, test examples", len(scored), f"{record.scored}, each once",
            met=sorted(scored) == list(range(record.scored)),
        )  # fmt: skip
    environments = {record.provenance.environment for record in (*alone.values(), *shared.values())}
    found.equal(f"{title}, environments of all runs", len(environments), 1)


def _indices(check: CheckContext, place: str, record: Record) -> list[int]:
    """The test examples that a run has scored, in the order of its predictions."""
    folder = check.store(place).folder(record.key, record.attempt)
    assert record.predictions is not None
    return [int(index) for index in predictions.read(folder, record.predictions)["index"]]
