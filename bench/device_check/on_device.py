"""Functions that the check calls in a child of its own, on the device: facts, products, power.

Importing this module imports torch, as the fork server does once.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lightning_bench.bench.execute.job import DeviceType
from lightning_bench.bench.measure import energy
from lightning_bench.bench.measure.clock import clock_of
from lightning_bench.bench.measure.nvml import NvmlGpu
from lightning_bench.bench.run import cuda_device
from lightning_bench.bench.run.precision import set_float32_precision
from lightning_bench.bench.spec import Precision
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.record import Environment

_MEGABYTE = 1_000_000


def facts() -> dict[str, Any]:
    """What torch and NVML say of the devices that this process may use, and of the machine."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    machine = environment()
    return {
        "count": count,
        "gpus": [gpu.model_dump_json() for gpu in cuda_device.describe(count)],
        "names": [torch.cuda.get_device_name(index) for index in range(count)],
        "driver": machine.driver,
        "libraries": machine.libraries,
    }


def environment() -> Environment:
    """The machine, as a record would tell of it."""
    if torch.cuda.is_available():
        return cuda_device.environment()
    return provenance.environment([])


def allocated(device: DeviceType) -> list[float]:
    """The mean of a megabyte of ones on each visible device, in the order of their indices."""
    torch.set_num_threads(1)  # as a run does: a fork can't use the threads of its parent's OpenMP
    on_gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    places = on_gpus if device == "cuda" else [device]
    return [float(torch.ones(_MEGABYTE // 4, device=place).mean()) for place in places]


def products(device: DeviceType, size: int, seconds: float) -> dict[str, dict[str, float]]:
    """Products of square matrices by precision: TFLOP/s, seconds by the wall and by events."""
    precisions: Sequence[Precision] = (
        ("fp32", "tf32", "bf16") if device == "cuda" else ("fp32", "bf16")
    )
    return {name: _product(device, size, seconds, name) for name in precisions}


def _product(
    device: DeviceType, size: int, seconds: float, precision: Precision
) -> dict[str, float]:
    torch.set_num_threads(1)
    set_float32_precision(precision, device)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)

    def step() -> None:
        torch.mm(a, b, out=out)

    clock = clock_of(device)
    clock.time(step, 1)  # which finds a kernel, and makes its workspace
    steps = max(1, round(seconds / max(clock.time(step, 1).wall_s, 1e-6)))
    timing = clock.time(step, steps)
    taken_s = timing.own_s if timing.device_s is None else timing.device_s
    measured = {"tflops": 2 * size**3 * steps / taken_s / 1e12, "wall_s": timing.wall_s}
    return measured if timing.device_s is None else measured | {"device_s": timing.device_s}


def power(device: DeviceType, seconds: float, powercap: Path = energy.POWERCAP) -> dict[str, Any]:
    """The mean watts of the first device, idle and busy; empty where no meter can be read."""
    meter = energy.cpu_meter(powercap) if device == "cpu" else _gpu_meter()
    if meter is None:
        return {}
    torch.set_num_threads(1)
    # The context, and the memory, are there before the idling.
    size = 2048 if device == "cuda" else 512
    matrix = torch.randn(size, size, device=device)
    clock = clock_of(device)
    clock.time(lambda: matrix @ matrix, 1)
    started, before = time.perf_counter(), meter.read_j()
    time.sleep(seconds)
    idle = (meter.read_j() - before) / (time.perf_counter() - started)
    started, before = time.perf_counter(), meter.read_j()
    while time.perf_counter() - started < seconds:
        clock.time(lambda: matrix @ matrix, 2)
    busy = (meter.read_j() - before) / (time.perf_counter() - started)
    limit = cuda_device.describe(1)[0].power_limit_w if device == "cuda" else None
    return {"idle_w": idle, "busy_w": busy, "limit_w": limit, "source": meter.source}


def _gpu_meter() -> energy.Meter | None:
    gpu = NvmlGpu.of_uuid(str(torch.cuda.get_device_properties(0).uuid))
    return gpu if gpu is not None and gpu.metered() else None


def loss_scale(checkpoints: Path) -> float | None:
    """The scale of fp16's gradient scaler in the newest checkpoint; None where there is none."""
    newest = max(checkpoints.glob("*.pt"), key=lambda path: path.name, default=None)
    if newest is None:
        return None
    state = torch.load(newest, map_location="cpu", weights_only=True)
    scale = state["precision"].get("scale")
    return None if scale is None else float(scale)
