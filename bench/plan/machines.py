"""Machines that a study may be planned for: what a device computes, moves, holds and draws."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.spec import Precision
from lightning_bench.common.messages import nearest

#: The share of a card's peak that training reaches (model FLOPs utilisation): well-fed Transformers
#: of some hundred million parameters come to 0.3 to 0.5, small networks and ConvNets to less.
UTILISATION = 0.4
#: To launch a kernel from Python takes about so long; a GPU waits for it where kernels are shorter.
_LAUNCH_S = 6e-6


@dataclass(frozen=True)
class DeviceRates:
    """Devices of one kind. Rates are peaks, of which a run reaches the share `utilisation`."""

    name: str
    devices: int
    flops: Mapping[Precision, float]  # a second, of matrix products; without those it hasn't
    convolution_flops: Mapping[Precision, float]
    bytes_per_s: float
    launch_s: float  # of one kernel
    step_s: float = 1e-3  # of Python, beside the model: Lightning's loop, the optimiser
    epoch_s: float = 0.02  # to begin and end an epoch and its validation
    start_s: float = 0.5  # of a run: its data, its trainer, its record
    utilisation: float = 1.0
    overlaps: bool = True  # launches go on while earlier kernels compute
    memory_bytes: int | None = None  # of a device
    watts: float | None = None  # of a device

    @property
    def title(self) -> str:
        """Its devices in words."""
        return f"{self.devices} × {self.name}" if self.devices > 1 else self.name


class _Card(NamedTuple):
    """A card as its data sheet has it: dense TFLOP/s with accumulation in fp32, GB, GB/s, watts."""

    fp32: float
    tf32: float | None
    bf16: float | None
    fp16: float
    memory_gb: float
    gb_per_s: float
    watts: float


CARDS = {
    "t4": _Card(8.1, None, None, 65.0, 16, 320, 70),
    "v100": _Card(15.7, None, None, 125.0, 32, 900, 300),
    "a10": _Card(31.2, 62.5, 125.0, 125.0, 24, 600, 150),
    "a100": _Card(19.5, 156.0, 312.0, 312.0, 80, 2039, 400),
    "a100-40gb": _Card(19.5, 156.0, 312.0, 312.0, 40, 1555, 400),
    "l4": _Card(30.3, 60.0, 121.0, 121.0, 24, 300, 72),
    "l40s": _Card(91.6, 183.0, 362.0, 362.0, 48, 864, 350),
    "h100": _Card(66.9, 494.7, 989.4, 989.4, 80, 3350, 700),
    "h200": _Card(66.9, 494.7, 989.4, 989.4, 141, 4800, 700),
    "rtx3090": _Card(35.6, 35.6, 71.0, 71.0, 24, 936, 350),
    "rtx4090": _Card(82.6, 82.6, 165.2, 165.2, 24, 1008, 450),
    "rtx5090": _Card(104.8, 104.8, 209.5, 209.5, 32, 1792, 575),
}


def named(words: str, utilisation: float | None = None) -> DeviceRates:
    """The machine of an option --on, as in `a100:8`; a UserError names those there are."""
    match = re.fullmatch(r"(?P<card>[\w-]+)(?::(?P<devices>[1-9]\d{0,5}))?", words.strip().lower())
    if match is None:
        raise UserError(f"--on {words}: it is a machine and a number of its devices, as in a100:8")
    card = CARDS.get(match["card"])
    if card is None:
        known = ["cpu", *CARDS]
        raise UserError(
            f"--on {words}: unknown machine{nearest(match['card'], known)}; "
            f"there are {', '.join(known)}"
        )
    rates: dict[Precision, float | None]
    rates = {"fp32": card.fp32, "tf32": card.tf32, "bf16": card.bf16, "fp16": card.fp16}
    flops = {precision: 1e12 * rate for precision, rate in rates.items() if rate}
    return DeviceRates(
        name=match["card"],
        devices=int(match["devices"] or 1),
        flops=flops,
        convolution_flops=flops,
        bytes_per_s=1e9 * card.gb_per_s,
        launch_s=_LAUNCH_S,
        utilisation=utilisation or UTILISATION,
        memory_bytes=int(card.memory_gb * 2**30),
        watts=card.watts,
    )


def of_card(name: str) -> str | None:
    """The machine of a card by the name that its driver gives; None where none is known."""
    joined = re.sub(r"[\s-]", "", name.lower())
    known = [machine for machine in CARDS if machine in joined]
    return max(known, key=len, default=None)


def with_utilisation(machine: DeviceRates, utilisation: float | None) -> DeviceRates:
    """The machine, with another share of its peak."""
    return replace(machine, utilisation=utilisation) if utilisation else machine
