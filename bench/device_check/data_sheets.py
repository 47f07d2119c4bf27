"""Peak TFLOP/s of cards as their data sheets print them: dense, with accumulation in fp32.

Lightning's own table (`get_available_flops`) holds figures with sparsity and without tensor cores
side by side, so it can't tell whether a measured one is right.
"""

import re
from typing import NamedTuple


class Peak(NamedTuple):
    """TFLOP/s of matrix products; None where the card has no tensor cores for them."""

    fp32: float
    tf32: float | None = None
    bf16: float | None = None


#: By words that all stand in the card's name; of several the one with the most words.
PEAKS = {
    "A10": Peak(31.2, 62.5, 125.0),
    "A30": Peak(10.3, 82.0, 165.0),
    "A40": Peak(37.4, 74.8, 149.7),
    "A100": Peak(19.5, 156.0, 312.0),
    "RTX A6000": Peak(38.7, 77.4, 154.8),
    "L4": Peak(30.3, 60.0, 121.0),
    "L40": Peak(90.5, 90.5, 181.0),
    "L40S": Peak(91.6, 183.0, 362.0),
    "H100 HBM3": Peak(66.9, 494.7, 989.4),
    "H100 NVL": Peak(60.0, 417.5, 835.5),
    "H100 PCIe": Peak(51.2, 378.0, 756.0),
    "H200": Peak(66.9, 494.7, 989.4),
    "RTX 3090": Peak(35.6, 35.6, 71.0),
    "RTX 4090": Peak(82.6, 82.6, 165.2),
    "RTX 5090": Peak(104.8, 104.8, 209.5),
    "T4": Peak(8.1),
    "V100 PCIE": Peak(14.0),
    "V100 SXM2": Peak(15.7),
}
#: Words of cards that are slower than their names' others: a part, or at less power.
_OTHERS = {"mig", "laptop", "max", "q", "d", "ti"}


def peak(card: str) -> Peak | None:
    """The peak of a card by the name that its driver gives; None where no sheet is known."""
    words = set(re.split(r"[\s-]+", card.lower()))
    if words & _OTHERS:
        return None
    known = [name for name in PEAKS if set(name.lower().split()) <= words]
    return PEAKS[max(known, key=lambda name: len(name.split()))] if known else None
