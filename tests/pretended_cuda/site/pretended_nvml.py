"""NVML of the pretended cards: what `pynvml` is asked, answered at the call."""

import os
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pretended_host as host

_TOTAL = 80 * 2**30


def patch(nvml: ModuleType) -> None:
    """Replace the calls; every other one finds no library, as without a driver."""

    def refuse() -> None:
        raise nvml.NVMLError(nvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    if not host.OPTIONS["nvml"]:
        nvml.nvmlInit = refuse
        return

    def by_index(card: int) -> Any:
        if not 0 <= card < host.COUNT:
            raise nvml.NVMLError(nvml.NVML_ERROR_INVALID_ARGUMENT)
        return SimpleNamespace(card=card, mig=None)

    def by_uuid(uuid: Any) -> Any:
        uuid = uuid.decode() if isinstance(uuid, bytes) else uuid
        for card in range(host.COUNT):
            if uuid == host.uuid(card):
                return by_index(card)
            for number in range(2):
                if uuid == host.instance(card, number):
                    return SimpleNamespace(card=card, mig=number)
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_FOUND)

    def mig_mode(handle: Any) -> tuple[int, int]:
        if handle.mig is not None:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        return (int(host.OPTIONS["mig"]),) * 2

    def instance(handle: Any, number: int) -> Any:
        if not host.OPTIONS["mig"] or number >= 2:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_FOUND)
        return SimpleNamespace(card=handle.card, mig=number)

    def name(handle: Any) -> str:
        return host.name(handle.card) + ("" if handle.mig is None else " MIG 3g.40gb")

    def uuid(handle: Any) -> str:
        whole = handle.mig is None
        return host.uuid(handle.card) if whole else host.instance(handle.card, handle.mig)

    def memory(handle: Any, *_: Any) -> Any:
        total = host.OPTIONS["capacity"] or _TOTAL
        used = sum(host.holders(handle.card).values())
        return SimpleNamespace(total=total, used=used, free=total - used)

    def processes(handle: Any) -> list[Any]:
        found = [
            SimpleNamespace(pid=pid, usedGpuMemory=size)
            for pid, size in host.holders(handle.card).items()
        ]
        foreign = host.OPTIONS["foreign"] if handle.card == 0 else []
        return found + [SimpleNamespace(pid=pid, usedGpuMemory=2**30) for pid in foreign]

    joules = {"at": 0}

    def energy(handle: Any) -> int:
        if handle.mig is not None:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        if not host.OPTIONS["watts"]:
            joules["at"] += 1000  # a joule a look
            return joules["at"]
        idle, busy = host.OPTIONS["watts"]
        return round(1000 * (idle * time.perf_counter() + (busy - idle) * time.process_time()))

    answers = {
        "nvmlInit": lambda: None,
        "nvmlInitWithFlags": lambda flags: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: host.COUNT,
        "nvmlDeviceGetHandleByIndex": by_index,
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetName": name,
        "nvmlDeviceGetUUID": uuid,
        "nvmlDeviceGetIndex": lambda handle: handle.card,
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetComputeRunningProcesses": processes,
        "nvmlDeviceGetPowerManagementLimit": lambda handle: 400_000,
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 400_000,
        "nvmlDeviceGetPowerUsage": lambda handle: 60_000,
        "nvmlDeviceGetTotalEnergyConsumption": energy,
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1410,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0,
        "nvmlDeviceGetCudaComputeCapability": lambda handle: tuple(host.OPTIONS["capability"]),
        "nvmlDeviceGetMigMode": mig_mode,
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7 if host.OPTIONS["mig"] else 0,
        "nvmlDeviceGetMigDeviceHandleByIndex": instance,
        "nvmlSystemGetDriverVersion": lambda: "550.54.15",
        "nvmlSystemGetCudaDriverVersion": lambda: host.OPTIONS["supports"],
        "nvmlSystemGetCudaDriverVersion_v2": lambda: host.OPTIONS["supports"],
        "nvmlSystemGetProcessName": lambda pid: f"process {pid} of {os.uname().nodename}",
    }
    for call, answer in answers.items():
        setattr(nvml, call, answer)
