"""Machines that a study may be planned for: what a device computes, moves, holds and draws."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan.data_sheets import SHEETS, of_card
from lightning_bench.bench.spec import Precision
from lightning_bench.common.messages import nearest

#: This host itself, beside the names of cards.
HOST = "cpu"
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


@dataclass(frozen=True)
class ChosenMachine:
    """The machine of a plan, and whether it is a GPU of which no data sheet is known."""

    rates: DeviceRates | None = None  # None: this host's cores, which are measured
    unknown_gpu: bool = False


def named(words: str, utilisation: float | None = None) -> DeviceRates:
    """The machine of an option --on, as in `a100:8`; a UserError names those there are."""
    match = re.fullmatch(r"(?P<card>[\w-]+)(?::(?P<devices>[1-9]\d{0,5}))?", words.strip().lower())
    if match is None:
        raise UserError(f"--on {words}: it is a machine and a number of its devices, as in a100:8")
    card = SHEETS.get(match["card"])
    if card is None:
        known = [HOST, *SHEETS]
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


def chosen(
    on: str | None, utilisation: float | None, cards: Callable[[], Sequence[str]]
) -> ChosenMachine:
    """The machine of --on, without it the GPUs here (names of `cards`), else this host's cores."""
    if on == HOST:
        return ChosenMachine()
    if on is not None:
        return ChosenMachine(named(on, utilisation))
    names = cards()
    if not names:
        return ChosenMachine()
    known = of_card(names[0])
    if known is None:
        return ChosenMachine(unknown_gpu=True)
    return ChosenMachine(named(f"{known}:{len(names)}", utilisation))


def with_utilisation(machine: DeviceRates, utilisation: float | None) -> DeviceRates:
    """The machine, with another share of its peak."""
    return replace(machine, utilisation=utilisation) if utilisation else machine
