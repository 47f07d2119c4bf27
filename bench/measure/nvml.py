"""NVML: what the driver of an NVIDIA GPU says of it. Each fact is absent where it may not be read.

There is none on ROCm; an instance of a partitioned GPU (MIG, vGPU) has no counter of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

#: Reasons for a lower clock that tell of the power supply, the cooling, or somebody's settings.
_THROTTLES = {
    "nvmlClocksThrottleReasonApplicationsClocksSetting": "clocks set",
    "nvmlClocksThrottleReasonSwPowerCap": "power cap",
    "nvmlClocksThrottleReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksThrottleReasonSyncBoost": "sync boost",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "heat",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "power brake",
}

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class GpuState:
    """A GPU at one moment."""

    clock_mhz: int | None = None
    throttled: tuple[str, ...] = ()
    processes: frozenset[int] | None = None  # those that compute on it, ours too


class NvmlGpu:
    """A GPU and its energy meter."""

    source = "NVML"
    #: The counter moves ten times a second at least; a block must be long beside that.
    least_block_s = 0.5

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    @classmethod
    def of_uuid(cls, uuid: str) -> "NvmlGpu | None":
        """The GPU of this UUID, as torch tells it; None where NVML doesn't know it."""
        import pynvml

        try:
            pynvml.nvmlInit()
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"))
        except pynvml.NVMLError:
            return None

    def metered(self) -> bool:
        """Whether it has an energy meter, and all to itself."""
        if self._partitioned():
            return False
        return self._ask(self.read_j) is not None

    def read_j(self) -> float:
        """The joules since the driver was loaded."""
        return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / 1000

    def state(self) -> GpuState:
        """Clock, throttling and processes now; to be asked while it still has its pace."""
        nvml, handle = self._nvml, self._handle
        clock = self._ask(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)))
        # Its newer name, "event reasons", is unknown to older drivers.
        bits = self._ask(lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))) or 0
        reasons = {word for name, word in _THROTTLES.items() if bits & getattr(nvml, name)}
        return GpuState(clock, tuple(sorted(reasons)), self._processes())

    def _processes(self) -> frozenset[int] | None:
        if self._partitioned():  # it would name those of the other instances
            return None
        listed = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        return None if listed is None else frozenset(process.pid for process in listed)

    def _partitioned(self) -> bool:
        mode = self._ask(lambda: self._nvml.nvmlDeviceGetMigMode(self._handle))
        return mode is not None and mode[0] == self._nvml.NVML_DEVICE_MIG_ENABLE

    def _ask(self, question: Callable[[], Fact]) -> Fact | None:
        """The answer, or None where the driver has none for us."""
        try:
            return question()
        except self._nvml.NVMLError:
            return None
