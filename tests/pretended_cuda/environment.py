"""The environment of pretended GPUs, and what their processes leave for a test to read."""

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

SITE = Path(__file__).with_name("site")
ROOT = SITE.parents[2]


def pretended(
    folder: Path,
    devices: int = 1,
    *,
    visible: str | None = None,
    names: Sequence[str] = ("NVIDIA Pretended 80GB",),
    capability: tuple[int, int] = (8, 0),
    capacity: int | None = None,
    nvml: bool = True,
    driver: str = "",
    supports: int = 13020,
    hip: str = "",
    mig: bool = False,
    per_task: bool = False,
    foreign: Sequence[int] = (),
    watts: tuple[float, float] | None = None,
    exit_s: float = 0.0,
    hang: bool = True,
    watchdog_s: float = 600.0,
) -> dict[str, str | None]:
    """What a process needs in its environment to see so many GPUs; the ledger lies in `folder`.

    visible     CUDA_VISIBLE_DEVICES
    names       of the cards, repeated as often as need be
    capacity    bytes of each card, which its processes share; none: as many as anybody wants
    nvml        whether there is a management library, as on WSL2 and ROCm there is none
    driver      what CUDA says as soon as it is used, such as that the driver is too old
    supports    the newest CUDA that the driver supports, as NVML tells it: 12040 is 12.4
    hip         the version of ROCm, where torch is built for that
    mig         whether each card is cut into two instances
    per_task    whether SLURM shows each task one card of its own, as index 0
    foreign     processes of others on the first card
    watts       of a card, idle and while the process that asks keeps a core busy; none: the
                meter moves by a joule whenever it is read
    exit_s      how long a process takes to end once it has said its last word
    hang        whether a group that an exception leaves hangs, as one of NCCL may
    watchdog_s  after which NCCL aborts a process that hangs
    """
    ledger = folder / "pretended-cuda"
    ledger.mkdir(exist_ok=True)
    options = {
        "devices": devices, "names": list(names), "capability": capability, "capacity": capacity,
        "nvml": nvml, "driver": driver, "supports": supports, "hip": hip, "mig": mig,
        "per_task": per_task,
        "foreign": list(foreign), "watts": watts, "exit_s": exit_s, "hang": hang,
        "watchdog_s": watchdog_s,
        "ledger": str(ledger),
    }  # fmt: skip
    return {
        "PRETENDED_CUDA": json.dumps(options),
        "PYTHONPATH": os.pathsep.join([str(SITE), str(ROOT)]),
        "CUDA_VISIBLE_DEVICES": visible,
    }


def uuid(folder: Path, card: int) -> str:
    """The UUID of a card of the host whose ledger lies in this folder."""
    host = zlib.crc32(str(folder / "pretended-cuda").encode())
    return f"GPU-{host:08x}-{card:04x}-0000-0000-000000000000"


def touched(folder: Path) -> list[str]:
    """The processes that have initialised CUDA: command line, settings of CUDA, and the stack."""
    ledger = folder / "pretended-cuda"
    return [path.read_text(encoding="utf-8") for path in sorted(ledger.glob("touched-*"))]
