"""Notes under a table of speeds: how busy the machine was, its clocks, and what was tried."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from lightning_bench.bench.store.measurements import Machine, Measurement, Session
from lightning_bench.reports.report import Note
from lightning_bench.reports.text.numbers import joined

#: From so many cores on, what others used is worth a warning.
_BUSY = 0.25
#: Share of the time that was spent waiting for a core from which the report says so.
_WAITED = 0.01


def notes(session: Session, measurements: Sequence[Measurement]) -> list[Note]:
    """Load, clocks, governor, foreign processes; a warning where the machine was not ours."""
    sentences = [
        *_other_load(session.before, measurements),
        *_machine_state(session.before, session.after),
        *_kernels(measurements),
        *_gpus(measurements),
        *_batch_sizes(session, measurements),
    ]
    if session.quick:
        sentences.append("Quick: a short warm-up and short blocks; leave --quick out for a paper.")
    return [Note(text=text) for text in sentences]


def _other_load(before: Machine, measurements: Sequence[Measurement]) -> Iterator[str]:
    """What other processes did meanwhile."""
    blocks = [block for measurement in measurements for block in measurement.blocks]
    others = [block.others_cores for block in blocks if block.others_cores is not None]
    if others and fmean(others) > _BUSY:
        yield (
            f"The machine was not idle: others used {fmean(others):.1f} of"
            f" {before.usable_cores} cores on average, {max(others):.1f} at most."
        )
    waited = sum(block.waited_s or 0.0 for block in blocks)
    share = waited / (sum(block.wall_s for block in blocks) or 1.0)
    if share > _WAITED:
        yield (
            f"The models waited {share:.0%} of their time for a core that others held; that time"
            " is taken off."
        )
    foreign = max((block.foreign_processes or 0 for block in blocks), default=0)
    if foreign:
        yield f"{foreign} process{'es' * (foreign > 1)} of others used the GPU."


def _machine_state(before: Machine, after: Machine) -> Iterator[str]:
    """Load, clock and governor."""
    facts = [f"load {before.load_1min:.2f}"] if before.load_1min is not None else []
    if clocks := [*before.clocks_mhz, *after.clocks_mhz]:
        facts.append(f"clock {_range(clocks)} MHz")
    if before.governor:
        facts.append(f"governor {before.governor}")
    if facts:
        yield f"At the start: {joined(facts)}."


def _kernels(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Which kernels torch took."""
    known = [each.kernels for each in measurements if each.kernels]
    if not known:
        return
    used = known[0]
    kinds = ["deterministic where there are such"] if used.deterministic else []
    without = sorted({operation for each in known for operation in each.nondeterministic})
    if measurements[0].setting.device != "cpu":
        kinds.append({"ieee": "float32 in IEEE precision"}.get(used.float32, used.float32.upper()))
        kinds += ["cuDNN tries several"] if used.cudnn_benchmark else []
    if kinds:
        exceptions = f"; {joined(without)} has none" if without else ""
        yield f"Kernels as in training: {joined(kinds)}{exceptions}."


def _gpus(measurements: Sequence[Measurement]) -> Iterator[str]:
    """The clocks of GPUs in the blocks, what held them down, and whether energy was metered."""
    if all(measurement.setting.device == "cpu" for measurement in measurements):
        return
    blocks = [block for measurement in measurements for block in measurement.blocks]
    if clocks := [block.clock_mhz for block in blocks if block.clock_mhz is not None]:
        yield f"GPU clock at the end of each block: {_range(clocks)} MHz."
    reasons = Counter(reason for block in blocks for reason in block.throttled)
    for reason, count in reasons.items():
        yield f"The GPU's clock was held down in {count} of {len(blocks)} blocks: {reason}."
    if blocks and all(measurement.energy_source is None for measurement in measurements):
        yield "No energy: this GPU has no meter of its own that NVML reads (MIG, vGPU, ROCm)."


def _range(clocks: Sequence[float]) -> str:
    low, high = min(clocks), max(clocks)
    return f"{low:.0f}" + (f"–{high:.0f}" if high > low else "")


def _batch_sizes(session: Session, measurements: Sequence[Measurement]) -> Iterator[str]:
    """Which batch sizes a search for the largest tried."""
    here = {f"{m.contender.label}, {m.setting.mode}" for m in measurements}
    for label, sizes in session.searched.items():
        if label in here:
            words = (f"{size} {'fits' if fits else 'does not'}" for size, fits in sizes)
            yield f"Batch sizes tried, {label}: {', '.join(words)}."
