"""The devices of this host, counted without torch, and how runs share them."""

import os
import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.job import Device
from lightning_bench.common.machine import usable_cores


def gpus() -> list[str]:
    """The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES gives them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        listed = Path("/proc/driver/nvidia/gpus")
        return [str(i) for i in range(len(list(listed.iterdir())))] if listed.is_dir() else []
    visible = []
    for gpu in (name.strip() for name in named.split(",")):
        # Like CUDA, which sees nothing from the first name on that is none.
        if not gpu or gpu.startswith("-") or gpu == "NoDevFiles":
            break
        visible.append(gpu)
    return visible


def room(device: Device, devices: int, threads: int) -> int:
    """How many runs of so many devices, with so many threads each, go side by side here."""
    if on_gpus := len(gpus()) if device != "cpu" else 0:
        return on_gpus // devices
    cores = usable_cores()
    return max(1, cores // (devices * threads)) if devices <= cores and device != "cuda" else 0


def demand(device: Device, devices: int, threads: int) -> int:
    """The same, and a UserError that says what there is where not even one has room."""
    if found := room(device, devices, threads):
        return found
    there = len(gpus()) if device != "cpu" else 0
    if device == "cuda" and not there:
        raise UserError("--device cuda: no GPU is visible here; see CUDA_VISIBLE_DEVICES")
    what = f"{there} GPU" if there else f"{usable_cores()} CPU core"
    is_there = f"is {what}" if what.startswith("1 ") else f"are {what}s"
    raise UserError(f"--devices {devices}: there {is_there} here")


def demand_compiler() -> None:
    """A UserError where torch's compiler would not find what it needs to compile for a CPU."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise UserError(f"--compile: there is no C++ compiler {compiler} on this host (see CXX)")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise UserError("--compile: Python's C headers are not on this host (Debian: python3-dev)")


def share(gpus: Sequence[str], devices: int, slot: int) -> tuple[str, ...]:
    """The GPUs of a slot; with more slots than there is room for, slots share them."""
    if not gpus:
        return ()
    first = slot % (len(gpus) // devices) * devices
    return tuple(gpus[first : first + devices])
