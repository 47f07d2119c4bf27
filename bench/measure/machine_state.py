"""The state of the machine around a measurement: load, clocks, governor, who else uses a GPU."""

import os
from pathlib import Path
from typing import Any

from lightning_bench.bench.store.measurements import Machine, Processor
from lightning_bench.common.machine import usable_cores
from lightning_bench.common.memory import available_bytes

_TICKS = os.sysconf("SC_CLK_TCK")


def observe(gpus: bool, own: frozenset[int] = frozenset()) -> Machine:
    """How the machine is now; `own` are processes of ours, which are no foreign ones."""
    return Machine(
        load_1min=_load(),
        waiting_share=_waiting(),
        usable_cores=usable_cores(),
        governor=_read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clocks_mhz=_clocks(),
        available_bytes=available_bytes(),
        gpus=_gpus(own) if gpus else [],
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


def _gpus(own: frozenset[int]) -> list[Processor]:
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [_gpu(pynvml, handle, own) for handle in handles]
    except pynvml.NVMLError:
        return []


def _gpu(nvml: Any, handle: Any, own: frozenset[int]) -> Processor:
    running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return Processor(
        name=str(nvml.nvmlDeviceGetName(handle)),
        clock_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        foreign_processes=sum(process.pid not in own for process in running),
    )


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
