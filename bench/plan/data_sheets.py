"""Data sheets of GPUs: peak FLOP/s, memory and power, found by the name that a driver gives.

Lightning's own table (`get_available_flops`) holds figures with sparsity and without tensor cores
side by side, so it can't tell whether a measured one is right.
"""

import re
from typing import NamedTuple


class DataSheet(NamedTuple):
    """A card as its sheet has it: dense TFLOP/s with accumulation in fp32, GB, GB/s, watts."""

    words: str  # that all stand in the name that the driver gives
    fp32: float
    tf32: float | None  # None: it has no tensor cores for them
    bf16: float | None
    fp16: float
    memory_gb: float
    gb_per_s: float
    watts: float


#: By the names of `bench plan --on`; figures of NVIDIA's data sheets and architecture white papers,
#: halved where they are printed with sparsity alone. A card whose sheet was not at hand, such as an
#: A30 or an H100 NVL, is not in here: a plan for it names a like one.
SHEETS = {
    "t4": DataSheet("T4", 8.1, None, None, 65.0, 16, 320, 70),
    "v100": DataSheet("V100 SXM2", 15.7, None, None, 125.0, 32, 900, 300),
    "v100-pcie": DataSheet("V100 PCIE", 14.0, None, None, 112.0, 32, 900, 250),
    "a10": DataSheet("A10", 31.2, 62.5, 125.0, 125.0, 24, 600, 150),
    "a40": DataSheet("A40", 37.4, 74.8, 149.7, 149.7, 48, 696, 300),
    "a100": DataSheet("A100", 19.5, 156.0, 312.0, 312.0, 80, 2039, 400),
    "a100-40gb": DataSheet("A100 40GB", 19.5, 156.0, 312.0, 312.0, 40, 1555, 400),
    "a6000": DataSheet("RTX A6000", 38.7, 77.4, 154.8, 154.8, 48, 768, 300),
    "l4": DataSheet("L4", 30.3, 60.0, 121.0, 121.0, 24, 300, 72),
    "l40": DataSheet("L40", 90.5, 90.5, 181.0, 181.0, 48, 864, 300),
    "l40s": DataSheet("L40S", 91.6, 183.0, 362.0, 362.0, 48, 864, 350),
    "h100": DataSheet("H100 HBM3", 66.9, 494.7, 989.4, 989.4, 80, 3350, 700),
    "h100-pcie": DataSheet("H100 PCIe", 51.2, 378.0, 756.0, 756.0, 80, 2000, 350),
    "h200": DataSheet("H200", 66.9, 494.7, 989.4, 989.4, 141, 4800, 700),
    "rtx3090": DataSheet("RTX 3090", 35.6, 35.6, 71.0, 71.0, 24, 936, 350),
    "rtx4090": DataSheet("RTX 4090", 82.6, 82.6, 165.2, 165.2, 24, 1008, 450),
    "rtx5090": DataSheet("RTX 5090", 104.8, 104.8, 209.5, 209.5, 32, 1792, 575),
}
#: Words of cards that are slower than their names' others: a part, or at less power.
_OTHERS = {"mig", "laptop", "max", "q", "d", "ti"}


def of_card(card: str) -> str | None:
    """The sheet's name, for a card as its driver names it; of several the one with most words."""
    words = set(re.split(r"[\s-]+", card.lower()))
    if words & _OTHERS:
        return None
    parts = {name: sheet.words.lower().split() for name, sheet in SHEETS.items()}
    known = [name for name in SHEETS if set(parts[name]) <= words]
    return max(known, key=lambda name: len(parts[name]), default=None)


def sheet_of(card: str) -> DataSheet | None:
    """The sheet of a card by the name that its driver gives; None where none is known."""
    name = of_card(card)
    return SHEETS[name] if name else None
