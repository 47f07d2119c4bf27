"""Energy meters: what a processor says that it has used, in joules; a GPU's is in `nvml`.

An estimate, and labelled so: a meter counts all that runs on its chip, idle power too, and is
read a few times a second at most.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

POWERCAP = Path("/sys/class/powercap")


class Meter(Protocol):
    """A counter of joules that only grows."""

    source: str
    least_block_s: float  # a shorter block would be lost between two readings of its counter

    def read_j(self) -> float:
        """The joules since some moment."""


class Rapl:
    """The packages of a processor, through the kernel's powercap interface."""

    source = "RAPL"
    least_block_s = 0.0  # it moves a thousand times a second

    def __init__(self, zones: Sequence[Path]) -> None:
        self._zones = zones
        self._ranges = [int((zone / "max_energy_range_uj").read_text()) for zone in zones]
        self._last = [int((zone / "energy_uj").read_text()) for zone in zones]
        self._total_uj = 0

    def read_j(self) -> float:
        """The joules since it was made; the counters start again when they are full."""
        for i, zone in enumerate(self._zones):
            now = int((zone / "energy_uj").read_text())
            self._total_uj += (now - self._last[i]) % (self._ranges[i] + 1)
            self._last[i] = now
        return self._total_uj / 1e6


def cpu_meter(root: Path = POWERCAP) -> Meter | None:
    """The processor's meter, where the kernel has one and lets us read it."""
    # intel-rapl:0 is a package (AMD's too); intel-rapl:0:1 a part of it, counted there already.
    zones = sorted(root.glob("intel-rapl:[0-9]*"))
    zones = [zone for zone in zones if zone.name.count(":") == 1]
    try:
        return Rapl(zones) if zones else None
    except (OSError, ValueError):
        return None  # only root may read it: a side channel, as the kernel sees it
