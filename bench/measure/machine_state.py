"""The state of the machine around a measurement: load, clocks, governor."""

import os
from pathlib import Path

from lightning_bench.bench.store.measurements import Machine
from lightning_bench.common.machine import usable_cores
from lightning_bench.common.memory import available_bytes

_TICKS = os.sysconf("SC_CLK_TCK")


def observe() -> Machine:
    """How the machine is now."""
    return Machine(
        load_1min=_load(),
        waiting_share=_waiting(),
        usable_cores=usable_cores(),
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clocks_mhz=_clocks(),
        available_bytes=available_bytes(),
    )


def busy_s() -> float | None:
    """Core-seconds that all processes together have used since the machine started."""
    line = (_read("/proc/stat") or "").partition("\n")[0].split()
    if len(line) < 9:
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, line[1:9])
    # What another virtual machine took from us is lost to us, too.
    return (user + nice + system + irq + softirq + steal) / _TICKS


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def _waiting() -> float | None:
    pressure = (_read("/proc/pressure/cpu") or "").split()
    found = next((word for word in pressure if word.startswith("avg10=")), None)
    return float(found.removeprefix("avg10=")) / 100 if found else None


def _clocks() -> list[float]:
    lines = (_read("/proc/cpuinfo") or "").splitlines()
    return [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
