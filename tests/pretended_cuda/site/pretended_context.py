"""The CUDA context of this process: whether it is initialised, and each thread's current device."""

import multiprocessing.util
import os
import threading
import time
from typing import Any

import pretended_host as host


class _Context:
    """What CUDA keeps a process and a thread."""

    torch: Any = None  # the module
    pid: int | None = None  # the process that has initialised CUDA; a fork may not use it
    thread = threading.local()


context = _Context()


def initialise() -> None:
    """Initialise CUDA, as its first use does, or refuse as the driver would."""
    if context.pid == os.getpid():
        return
    if context.pid is not None:
        raise RuntimeError(
            "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
            "you must use the 'spawn' start method"
        )
    if host.OPTIONS["driver"]:
        raise RuntimeError(host.OPTIONS["driver"])
    if not host.visible():
        raise RuntimeError("No CUDA GPUs are available")
    context.pid = os.getpid()
    host.note_touch()
    if host.OPTIONS["exit_s"]:
        multiprocessing.util.Finalize(
            None, time.sleep, args=(host.OPTIONS["exit_s"],), exitpriority=-100
        )


def current() -> int:
    """The current device of this thread."""
    return int(getattr(context.thread, "device", 0))


def check(device: Any = None) -> int:
    """The index of a device that is given in any of torch's ways; RuntimeError beyond what is."""
    initialise()
    if device is None:
        return current()
    if not isinstance(device, int):
        device = context.torch.device(device)
        device = current() if device.index is None else device.index
    if not 0 <= device < len(host.visible()):
        raise RuntimeError("CUDA error: invalid device ordinal")
    return int(device)
