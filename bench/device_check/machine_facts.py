"""Steps 1 and 2: what this machine says of its devices, and whether a forked child can use them."""

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lightning_bench.bench.device_check import forked_child
from lightning_bench.bench.device_check.context import CheckContext
from lightning_bench.bench.device_check.device_report import Findings
from lightning_bench.bench.execute import devices
from lightning_bench.bench.store import provenance
from lightning_bench.common.machine import usable_cores
from lightning_bench.common.memory import available_bytes

#: With less of its memory free a card is somebody else's as well.
_FREE = 0.9
#: Where the driver lists its cards, and what names none in CUDA_VISIBLE_DEVICES.
_LISTED, _NO_DEVICE = "/proc/driver/nvidia/gpus", {"", "-1", "NoDevFiles"}


class CardState(NamedTuple):
    """A card's memory, neighbours and whether MIG cuts it up; None where it does not tell."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    processes: int | None = None
    mig: bool = False


def facts(check: CheckContext, found: Findings) -> str:
    """Count the GPUs by every source that there is; tell drivers, versions, memory, neighbours."""
    torch_says = forked_child.call("facts")
    counts = _counts(torch_says["count"])
    for source, (count, is_of_process) in counts.items():
        if is_of_process:
            found.equal(f"GPUs, by {source}", count, torch_says["count"])
        else:
            found.tell(f"GPUs, by {source}", count)
    if check.device == "cuda":
        found.equal("what speaks against the GPUs", devices.find(insist=True).problem, "")
    found.tell("driver", torch_says["driver"])
    for name, version in torch_says["libraries"].items():
        found.tell(name, version)
    for index, gpu in enumerate(torch_says["gpus"]):
        found.tell(f"GPU {index}", gpu)
    for index, card in enumerate(card_states() or []):
        _tell_card(found, index, card)
    found.between("cores", usable_cores(), 1)
    found.tell("memory available, GB", round((available_bytes() or 0) / 1e9, 1))
    asked = [f"{source} {count}" for source, (count, _) in counts.items() if count is not None]
    return f"GPUs: {', '.join(asked)}; {usable_cores()} cores"


def in_a_forked_child(check: CheckContext, found: Findings) -> str:
    """A megabyte on each device from a forked child; `auto` must mean the device."""
    means = forked_child.call("allocated", check.device)
    found.expect(
        "devices that hold a megabyte", sum(mean == 1.0 for mean in means),
        f"all {len(means)}, and one at least", met=bool(means) and set(means) == {1.0},
    )  # fmt: skip
    # On a host with GPUs its CPU may be checked, too.
    auto = devices.resolve("auto") if check.device == "cuda" else "cpu"
    found.equal("what auto means", auto, check.device)
    return f"a megabyte on each of {len(means)} ({check.device}); auto means {auto}"


def card_states() -> list[CardState] | None:
    """What NVML says of each card of the host; None where it isn't there."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return None
    return [_state(pynvml, handle) for handle in handles]


def _counts(seen_by_torch: int) -> dict[str, tuple[int | None, bool]]:
    """The number of GPUs by each source, and whether it means those that this process may use."""
    named, folder, cards = provenance.visible_devices(), Path(_LISTED), card_states()
    words = None if named is None else [word.strip() for word in named.split(",")]
    listed = len(list(folder.iterdir())) if folder.is_dir() else None
    # Of a host whose cards MIG cuts up, or not all of which are visible, it is another number.
    whole = words is None and not any(card.mig for card in cards or [])
    named_count = None if words is None else sum(word not in _NO_DEVICE for word in words)
    return {
        "torch": (seen_by_torch, True),
        "bench": (len(devices.gpus()), True),
        "CUDA_VISIBLE_DEVICES": (named_count, words is not None),
        "NVML": (None if cards is None else len(cards), whole and cards is not None),
        "/proc": (listed, whole and listed is not None),
    }


def _state(nvml: Any, handle: Any) -> CardState:
    """A card's state; each fact by itself, since some cards refuse some."""
    state = CardState()
    with suppress(nvml.NVMLError):
        state = state._replace(mig=bool(nvml.nvmlDeviceGetMigMode(handle)[0]))
    with suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        state = state._replace(total_bytes=int(memory.total), free_bytes=int(memory.free))
    with suppress(nvml.NVMLError):
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        state = state._replace(processes=len(running))
    return state


def _tell_card(found: Findings, index: int, card: CardState) -> None:
    found.tell(f"card {index}, processes", card.processes)
    if card.total_bytes and card.free_bytes is not None:
        free = card.free_bytes / card.total_bytes
        found.tell(f"card {index}, share of its memory that is free", free)
        if free < _FREE:
            found.notes.append(
                f"card {index} has {free:.0%} of its memory free: who else is there?"
            )
    if card.processes:
        found.notes.append(f"card {index}: {card.processes} processes of others compute there")
