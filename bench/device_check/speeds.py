"""Step 9: products against the card's data sheet, and two contenders at their largest batch."""

from collections.abc import Mapping
from statistics import median

from lightning_bench.bench.device_check import forked_child
from lightning_bench.bench.device_check.context import CheckContext
from lightning_bench.bench.device_check.device_report import TFLOPS, Findings, relative
from lightning_bench.bench.execute import devices, gpu_locks
from lightning_bench.bench.measure import contenders
from lightning_bench.bench.measure.protocol import Failed, MeasureJob, Ready
from lightning_bench.bench.measure.session import SessionPlan
from lightning_bench.bench.measure.warm_up import Pace
from lightning_bench.bench.plan.data_sheets import DataSheet, sheet_of
from lightning_bench.bench.store.measurements import Contender, Measurement, Setting
from lightning_bench.models.registry import catalogue as model_catalogue

#: Shares of the data sheet's peak. Cards may be clocked beyond the sheet's boost.
LEAST, MOST = 0.3, 1.1
#: Seconds between CUDA events, from those by the wall.
EVENTS = 0.05
#: Of CPUs and GPUs, whose steps are to take milliseconds.
_SIZES = {"cpu": (1024, 512), "cuda": (8192, 2048)}
_PACE = Pace(least_steps=4, least_s=0.2, most_s=3.0, block_s=0.05, rounds=5)


def speeds(check: CheckContext, found: Findings) -> str:
    """Time products in each precision, then two models in turns."""
    size = _SIZES[check.device][check.quick]
    products = forked_child.call("products", check.device, size, 0.5 if check.quick else 2.0)
    card = ""
    if check.device == "cuda":
        card = forked_child.call("facts")["names"][0]
        for name, timed in products.items():
            off = relative(timed["device_s"], timed["wall_s"])
            found.at_most(f"{name}, seconds by events from those by the wall", off, EVENTS)
        if not devices.unfit_cards("bf16"):
            faster = products["bf16"]["tflops"] / products["fp32"]["tflops"]
            found.between("bf16, times as fast as fp32", faster, 1.0)
    judge_products(found, products, sheet_of(card), card)
    two_contenders(check, found)
    told = ", ".join(f"{name} {timed['tflops']:.3g}" for name, timed in products.items())
    sheet = f"data sheet of {card}" if sheet_of(card) else "no data sheet is known"
    return f"products of {size}: {told} TFLOP/s ({sheet}); both contenders have a figure"


def judge_products(
    found: Findings,
    products: Mapping[str, Mapping[str, float]],
    sheet: DataSheet | None,
    card: str,
) -> None:
    """Hold TFLOP/s against the data sheet, as far as there is one."""
    for name, timed in products.items():
        printed = getattr(sheet, name, None)
        if printed is None:
            found.tell(f"{name}, {TFLOPS}", timed["tflops"])
        else:
            found.between(
                f"{name}, {TFLOPS}", timed["tflops"], LEAST * printed, MOST * printed,
                f"(the sheet of {card} prints {printed:g})",
            )  # fmt: skip


def two_contenders(check: CheckContext, found: Findings) -> None:
    """Measure two models in turns, on a GPU each with the largest batch that fits."""
    on_gpu = check.device == "cuda"
    if not on_gpu:
        found.notes.append("--batch-size max is for GPUs: a CPU's memory is everybody's")
    asked = [
        (_contender(name), Setting(mode="train", batch_size=2, device=check.device))
        for name in check.contenders
    ]
    store = check.store("measured")
    store.prepare()
    with gpu_locks.claim(1, 1) if on_gpu else gpu_locks.GpuClaim() as claimed:
        plan = SessionPlan(
            asked=asked,
            pace=_PACE,
            quick=True,
            sources=contenders.sources_of(contender for contender, _ in asked),
            search_batch=on_gpu,
            gpus=claimed.ids,
        )
        session = plan.run(store, _Silent())
    for measurement in session.measurements:
        _expect_figure(found, measurement)


def _contender(name: str) -> Contender:
    entry = model_catalogue.find(name)
    return Contender(
        label=name,
        model=name,
        args=model_catalogue.check_arguments(entry, {}),
        family=entry.family,
    )


def _expect_figure(found: Findings, measurement: Measurement) -> None:
    """Every round of a contender has a block; on a GPU events agree with the wall."""
    name = f"{measurement.contender.label} at batch {measurement.setting.batch_size}"
    if measurement.failure:
        found.expect(name, f"{measurement.failure.kind}: {measurement.failure.message}",
                     "a figure", met=False)  # fmt: skip
        return
    found.equal(f"{name}, blocks", len(measurement.blocks), _PACE.rounds)
    steps = sum(block.steps for block in measurement.blocks)
    wall_s = sum(block.wall_s for block in measurement.blocks)
    found.tell(f"{name}, images/s", steps * measurement.setting.batch_size / wall_s)
    apart = [
        relative(block.device_s, block.wall_s) for block in measurement.blocks if block.device_s
    ]
    if apart:
        found.at_most(f"{name}, events from the wall", median(apart), EVENTS)


class _Silent:
    """A session's listener that shows nothing."""

    def searching(self, job: MeasureJob, batch_size: int, fits: bool | None) -> None:
        """Nothing."""

    def preparing(self, job: MeasureJob) -> None:
        """Nothing."""

    def prepared(self, job: MeasureJob, answer: Ready | Failed) -> None:
        """Nothing."""

    def turn(self, job: MeasureJob, number: int) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""
