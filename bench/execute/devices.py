"""What a device means: the GPUs of this host, found without CUDA in this process.

A process that has initialised CUDA can't be forked, so the parent never does. It asks NVML, and
where there is none though a GPU may be (ROCm, a Jetson), torch in a short-lived child.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.job import Device, DeviceType
from lightning_bench.bench.spec import Precision
from lightning_bench.bench.store import provenance
from lightning_bench.common.machine import usable_cores

#: Accelerators that torch has and this bench has not, by the names they would be asked for.
REFUSED = {
    "mps": "the GPU of a Mac (MPS) is not supported: it has no float64, no process group and other "
    "random numbers, and no run of this bench was ever checked on one",
    "xpu": "Intel's GPUs (XPU) are not supported: no run of this bench was ever checked on one",
}
#: Where a driver shows itself that may come without NVML.
_DRIVERS = ("/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu", "/proc/driver/nvidia/version")
#: CUDA's variables that a process must have before torch starts.
_SETTINGS = {
    # As NVML counts, and not by speed.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    # cuBLAS reads it once: without, its products are not deterministic.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}
_ASK_TORCH = """
import json, torch
found = {"cards": [], "error": ""}
try:
    for i in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(i)
        uuid = str(getattr(card, "uuid", ""))
        found["cards"].append((card.name, card.major, card.minor, uuid))
    if not found["cards"]:
        torch.cuda.init()
except Exception as error:
    found["error"] = (str(error).strip() or type(error).__name__).splitlines()[0]
print(json.dumps(found))
"""
_ASK_S = 120


@dataclass(frozen=True)
class Card:
    """A GPU, or an instance of one that MIG cuts up, by its name in CUDA_VISIBLE_DEVICES."""

    id: str
    name: str = ""
    uuid: str = ""
    capability: tuple[int, int] | None = None
    instances: tuple["Card", ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Found:
    """The GPUs that this process may use, and why none of them can be, where that is so."""

    cards: tuple[Card, ...] = ()
    problem: str = ""


def resolve(device: Device) -> DeviceType:
    """What `auto` means here; UserError where a GPU is asked for, or is there, and of no use."""
    if device == "cpu":
        return "cpu"
    found = find(insist=device == "cuda")
    if found.problem:
        instead = "; --device cpu is for the CPU" if device == "auto" else ""
        raise UserError(f"--device {device}: {found.problem}{instead}")
    if device == "cuda" and not found.cards:
        raise UserError("--device cuda: no GPU is visible here; see CUDA_VISIBLE_DEVICES")
    return "cuda" if found.cards else "cpu"


def parse_device(word: str) -> Device:
    """The value of an option --device; UserError with the reason for what this bench has not."""
    for device in ("auto", "cpu", "cuda"):
        if word == device:
            return device
    if word in REFUSED:
        raise UserError(f"--device {word}: {REFUSED[word]}; take --device cpu")
    raise UserError(f"--device {word}: it is auto, cpu or cuda")


def unused_accelerator() -> str:
    """What `auto` should say where it takes the CPU though there is an accelerator; else empty."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return f"on the CPU: {REFUSED['mps']}"
    if _torch_builds().get("xpu") and provenance.visible_devices() is None:
        return f"on the CPU: {REFUSED['xpu']}"
    return ""


def gpus() -> list[str]:
    """The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES gives them."""
    return [card.id for card in find().cards]


def find(*, insist: bool = False) -> Found:
    """The GPUs that this process may use; with `insist` torch is asked whatever it costs."""
    return _find(provenance.visible_devices(), insist)


@cache
def _find(named: str | None, insist: bool) -> Found:
    words = None if named is None else _words(named)
    if words == []:
        return Found()
    listed = _listed_by_nvml()
    if listed is None:
        return _found_by_torch(words, insist)
    if words is None:
        cards = tuple(each for card in listed for each in card.instances or (card,))
    else:
        cards = _named(words, listed)
        if not cards:
            return Found(problem=f"{_variable()} is {named}, and there {_are(len(listed))} here")
    return Found(cards, _mismatch() if cards else "")


def _words(named: str) -> list[str]:
    """The devices that a variable names; CUDA sees none from the first word on that is none."""
    words = []
    for word in (word.strip() for word in named.split(",")):
        if not word or word.startswith("-") or word == "NoDevFiles":
            break
        words.append(word)
    return words


def _named(words: Sequence[str], listed: Sequence[Card]) -> tuple[Card, ...]:
    """The cards of these names; like CUDA, none from the first one on that there is not."""
    cards: list[Card] = []
    for word in words:
        if word.isdigit():
            matching = [card for i, card in enumerate(listed) if i == int(word)]
        else:
            all_cards = [each for card in listed for each in (card, *card.instances)]
            matching = [card for card in all_cards if card.uuid.startswith(word)]
        if len(matching) != 1:
            break
        if any(card.uuid == matching[0].uuid for card in cards):  # CUDA takes none at all
            return ()
        cards.append(replace(matching[0], id=word))
    return tuple(cards)


def _listed_by_nvml() -> list[Card] | None:
    """All cards of the host, in the order of their buses; None without NVML."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        return [_card(nvml, i) for i in range(nvml.nvmlDeviceGetCount())]
    finally:
        nvml.nvmlShutdown()


def _has_nvml() -> bool:
    return _listed_by_nvml() is not None


def names_and_driver() -> tuple[list[str], str]:
    """The names of all GPUs of the host, and the driver's version; empty without NVML."""
    import pynvml as nvml

    names = [card.name for card in _listed_by_nvml() or []]
    try:
        nvml.nvmlInit()
        return names, str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return names, ""


def power_and_profile(uuid: str) -> tuple[float | None, str]:
    """A GPU's power limit in watts, and its profile where it is an instance that MIG made."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None, ""
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        return nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000, ""
    with suppress(nvml.NVMLError):
        name = str(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")))
        return None, name.partition(" MIG ")[2]
    return None, ""


def _card(nvml: Any, index: int) -> Card:
    """A card with its instances; whatever it does not tell is left open."""
    card = Card(str(index), uuid=f"unknown-{index}")
    with suppress(nvml.NVMLError):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        card = replace(card, uuid=str(nvml.nvmlDeviceGetUUID(handle)))
        card = replace(card, name=str(nvml.nvmlDeviceGetName(handle)))
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        card = replace(card, capability=(int(major), int(minor)))
        if nvml.nvmlDeviceGetMigMode(handle)[0]:
            card = replace(card, instances=tuple(_instances(nvml, handle, card)))
    return card


def _instances(nvml: Any, handle: Any, card: Card) -> list[Card]:
    instances = []
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with suppress(nvml.NVMLError):  # not all places are taken
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            uuid = str(nvml.nvmlDeviceGetUUID(instance))
            name = str(nvml.nvmlDeviceGetName(instance))
            instances.append(Card(uuid, name, uuid, card.capability))
    return instances


def _found_by_torch(words: list[str] | None, insist: bool) -> Found:
    """What torch finds where there is no NVML, asked only if there are signs of a GPU."""
    builds = _torch_builds()
    signs = [path for path in _DRIVERS if Path(path).exists()]
    if builds.get("hip") and Path("/dev/kfd").exists():
        signs.append("/dev/kfd")
    if words is None and not signs and not insist:
        return Found()
    asked = f"{_variable()} is {','.join(words)}, but " if words else ""
    if not builds.get("cuda") and not builds.get("hip"):
        return Found(problem=f"{asked}torch is built for CPUs alone" if asked or insist else "")
    told = _ask_torch(provenance.visible_devices())
    if not told["cards"]:
        why = f" ({told['error']})" if told["error"] else ""
        return Found(problem=f"{asked}torch finds no GPU{why}" if asked or insist else "")
    ids = words or [str(i) for i in range(len(told["cards"]))]
    # A driver may give all cards the same UUID, of zeros.
    distinct = len({uuid for *_, uuid in told["cards"]}) == len(told["cards"])
    return Found(
        tuple(
            Card(
                word,
                name,
                f"GPU-{uuid}" if distinct and uuid.strip("0-") else f"{platform.node()}-{word}",
                (major, minor),
            )
            for word, (name, major, minor, uuid) in zip(ids, told["cards"], strict=False)
        )
    )


@cache
def _ask_torch(named: str | None) -> dict[str, Any]:
    """What torch says of the GPUs of such a variable, in a child."""
    del named  # the child has it in its environment
    words = [sys.executable, "-P", "-c", _ASK_TORCH]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_ASK_S)
        told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        return {"cards": [], "error": f"torch did not answer: {type(error).__name__}"}
    return told


def _mismatch() -> str:
    """Why torch can't use the cards that NVML has listed; empty where nothing speaks against it."""
    builds = _torch_builds()
    if not builds.get("cuda") and not builds.get("hip"):
        return "there is a GPU, but torch is built for CPUs alone"
    import pynvml as nvml

    try:
        nvml.nvmlInit()
        version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
        driver = str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return ""
    # Within a major version any driver will do.
    if version // 1000 >= int(str(builds.get("cuda") or "0").partition(".")[0]):
        return ""
    supported = f"{version // 1000}.{version % 1000 // 10}"
    return (
        f"the driver ({driver}) is too old: it supports CUDA {supported}, and torch is built for "
        f"{builds['cuda']}; update the driver, or install a torch for CUDA {supported}"
    )


@cache
def _torch_builds() -> dict[str, str | None]:
    """The versions of CUDA, ROCm and XPU that torch is built for, without importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
    found = re.findall(r"^(cuda|hip|xpu)\b[^=\n]*= *(?:'([^']*)'|None)", text, re.MULTILINE)
    return {name: version or None for name, version in found}


def _variable() -> str:
    """The variable that says which GPUs a process may use."""
    return next((name for name in provenance.VISIBLE if name in os.environ), provenance.VISIBLE[-1])


def _are(count: int) -> str:
    return f"is {count} GPU" if count == 1 else f"are {count} GPUs"


def unfit_cards(precision: Precision) -> str:
    """Why the cards here can't compute in a precision; empty where they can, or don't tell."""
    for card in find(insist=True).cards:
        # Before Ampere torch emulates bf16, slower than fp32, and computes tf32 as fp32.
        if precision in {"bf16", "tf32"} and card.capability and card.capability < (8, 0):
            capability = ".".join(map(str, card.capability))
            return (
                f"precision {precision} needs an Ampere GPU or a later one; "
                f"{card.name} has compute capability {capability}: take fp32 or fp16"
            )
    return ""


def show(cards: Sequence[str]) -> None:
    """Let this process see these GPUs alone; to be called before CUDA's first use."""
    os.environ[_variable()] = ",".join(cards)


def prepare_environment() -> None:
    """Set what CUDA's libraries read once; to be called before a process starts that uses them."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)


def likely_room(devices: int, threads: int) -> int:
    """About how many runs go side by side here, told at once: torch is not asked."""
    named = provenance.visible_devices()
    listed = _find(named, False).cards if _has_nvml() else _words(named or "")
    return len(listed) // devices if listed else room("cpu", devices, threads)


def room(device: DeviceType, devices: int, threads: int) -> int:
    """How many runs of so many devices, with so many threads each, go side by side here."""
    if device == "cuda":
        return len(find(insist=True).cards) // devices
    cores = usable_cores()
    return max(1, cores // (devices * threads)) if devices <= cores else 0


def demand(device: Device, devices: int, threads: int) -> int:
    """The same; a UserError says what there is where not even one has room."""
    if resolve(device) == "cpu":
        if found := room("cpu", devices, threads):
            return found
        cores = usable_cores()
        are = "is 1 CPU core" if cores == 1 else f"are {cores} CPU cores"
        raise UserError(f"--devices {devices}: there {are} here")
    cards = find(insist=True).cards
    if devices > 1 and any(card.id.startswith("MIG-") for card in cards):
        raise UserError(f"--devices {devices}: NCCL does not serve MIG's instances; take 1")
    if len(cards) < devices:
        raise UserError(f"--devices {devices}: there {_are(len(cards))} here")
    return len(cards) // devices


def demand_compiler(device: DeviceType = "cpu") -> None:
    """A UserError where torch's compiler would not find what it needs on this host."""
    # For a GPU Triton compiles its launchers, in C.
    variable, kind, default = ("CC", "C", "gcc") if device == "cuda" else ("CXX", "C++", "g++")
    compiler = os.environ.get(variable, default)
    defaults = ("gcc", "clang", "cc") if device == "cuda" else (default,)
    candidates = (compiler,) if variable in os.environ else defaults
    if not any(shutil.which(each) for each in candidates):
        raise UserError(
            f"--compile: there is no {kind} compiler {compiler} on this host (see {variable})"
        )
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        raise UserError("--compile: Python's C headers are not on this host (Debian: python3-dev)")


def share(gpus: Sequence[str], devices: int, slot: int) -> tuple[str, ...]:
    """The GPUs of a slot; with more slots than there is room for, slots share them."""
    if not gpus:
        return ()
    first = slot % (len(gpus) // devices) * devices
    return tuple(gpus[first : first + devices])
