"""Steps 3, 4 and 6: the same training on the CPU and the device, twice, and in half precision."""

import math

from lightning_bench.bench.device_check.context import (
    CheckContext,
    demand_done,
    first_loss,
)
from lightning_bench.bench.device_check.device_report import (
    TRAIN_LOSS,
    Findings,
    Skipped,
    relative,
)
from lightning_bench.bench.device_check.networks import at_precision, with_recipe
from lightning_bench.bench.execute import devices
from lightning_bench.bench.execute.reproduction import compare
from lightning_bench.bench.spec import Precision
from lightning_bench.bench.store.record import Record

#: Of the training loss of the first epoch, before rounding has grown.
LOSS = 1e-4
#: Of the test's accuracy after two epochs: one point, three or four of 360 digits.
POINTS = 1.0
#: Of the training loss of the first epoch, at precisions below fp32.
HALF: dict[Precision, float] = {"tf32": 0.01, "bf16": 0.02, "fp16": 0.01}
#: Of fp16, where losses are compared: from torch's 65,536 on, gradients of the ViT overflow once,
#: and the one step of eighteen that is then skipped changes the epoch's loss by 7 %.
LOSS_SCALE = 1024.0


def against_cpu(check: CheckContext, found: Findings) -> str:
    """Train on the CPU and on the device in fp32; a CPU is compared with two ranks of itself."""
    if check.device == "cuda":
        reference = check.trained("on-cpu", check.networks, device="cpu")
        other, ranks = check.trained("on-device", check.networks), 1
        what = "CPU against GPU"
    else:
        if check.devices < 2:
            raise Skipped("the device is the CPU itself, and there is no second core for two ranks")
        reference = check.trained("on-device", check.networks)
        other, ranks = check.train("two-ranks", check.networks, devices=2), 2
        what = "no other device: one rank against two"
    demand_done(reference, "cpu")
    demand_done(other, check.device, ranks)
    for name in check.networks:
        _compare(found, name, reference[name], other[name])
    return (
        f"{what}, {len(other)} networks: train loss within {found.largest('train loss'):.1g} "
        f"(≤ {LOSS:g}), accuracy within {found.largest('accuracy'):.2g} points (≤ {POINTS:g})"
    )


def twice(check: CheckContext, found: Findings) -> str:
    """Train twice on the device: equal bit for bit, or the model and the operation are named."""
    first = check.trained("on-device", check.networks)
    second = check.train("again", check.networks)
    demand_done(first, check.device)
    demand_done(second, check.device)
    for name in check.networks:
        expect_equal_bits(found, name, first[name], second[name])
    return f"{len(second)} networks, equal bit for bit"


def half_precision(check: CheckContext, found: Findings) -> str:
    """Train in bf16, on a GPU in tf32 and fp16, too: finite, and near fp32."""
    precisions: list[Precision] = ["bf16"]
    if check.device == "cpu":
        found.notes.append("tf32 and fp16 need a GPU; a CPU trains in fp32 or bf16")
    elif problem := devices.unfit_cards("bf16"):
        precisions = ["fp16"]
        found.notes.append(problem)
    else:
        precisions = ["tf32", "bf16", "fp16"]
    full = check.trained("on-device", check.networks)
    demand_done(full, check.device)
    for precision in precisions:
        specs = {name: at_precision(spec, precision) for name, spec in check.networks.items()}
        if precision == "fp16":
            specs = {n: with_recipe(spec, loss_scale=LOSS_SCALE) for n, spec in specs.items()}
        half = check.trained(precision, specs)
        demand_done(half, check.device)
        for name, record in half.items():
            losses = [epoch.train_loss for epoch in record.curve]
            found.expect(
                f"{name}, {precision}, all losses finite", losses[-1], "finite",
                met=all(map(math.isfinite, losses)),
            )  # fmt: skip
            off = relative(first_loss(record), first_loss(full[name]))
            found.at_most(f"{name}, {precision}, train loss from fp32's", off, HALF[precision])
    return "; ".join(
        f"{p}: train loss within {found.largest(f'{p}, train loss'):.1g} of fp32's (≤ {HALF[p]:g})"
        for p in precisions
    )


def expect_equal_bits(found: Findings, name: str, one: Record, other: Record) -> None:
    """Expect two records to be equal bit for bit; else name the operations that torch warned of."""
    verdict = compare(one, other, {}).verdict
    found.equal(name, verdict, "equal bit for bit")
    if verdict != "equal bit for bit":
        operations = sorted({*one.nondeterministic, *other.nondeterministic})
        found.notes.append(f"{name}: torch warned of {', '.join(operations) or 'no operation'}")


def _compare(found: Findings, name: str, one: Record, other: Record) -> None:
    off = relative(first_loss(other), first_loss(one))
    found.at_most(f"{name}, {TRAIN_LOSS}, relative", off, LOSS)
    points = 100 * abs(one.metrics["accuracy"] - other.metrics["accuracy"])
    found.at_most(f"{name}, accuracy", points, POINTS, "points")
