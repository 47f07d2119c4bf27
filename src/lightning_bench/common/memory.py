"""Peak memory of a process tree, and the limit that makes too much of it an error in time."""

import os
import resource
from pathlib import Path

_PROC = Path("/proc")


def tree(root: int | None = None) -> list[int]:
    """A process and all its descendants."""
    found = [root or os.getpid()]
    for pid in found:
        for children in (_PROC / str(pid) / "task").glob("*/children"):
            try:
                found += map(int, children.read_text(encoding="ascii").split())
            except OSError:
                continue  # that thread has just ended
    return found


def reset_peak() -> bool:
    """Forget the peaks so far; False where the kernel doesn't let us."""
    try:
        for pid in tree():
            (_PROC / str(pid) / "clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int:
    """The highest resident memory since the reset, summed over the process tree."""
    if not _PROC.joinpath("self/status").exists():  # no Linux: the peak since the start, in kB or B
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if os.uname().sysname == "Darwin" else used * 1024
    return sum(_field(pid, "VmHWM") for pid in tree())


def resident_bytes() -> int:
    """What is resident now, summed over the process tree."""
    return sum(_field(pid, "VmRSS") for pid in tree())


def available_bytes() -> int | None:
    """What the machine can still give without swapping."""
    try:
        lines = (_PROC / "meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith("MemAvailable:")), None)
    return int(found.split()[1]) * 1024 if found else None


def limit_to_available(share: float = 0.9) -> None:
    """Refuse what the machine doesn't have at once, in this process.

    Without the limit the kernel would promise it, and when the promise is called in, kill some
    process, maybe somebody else's.
    """
    available = available_bytes()
    if available is None:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _field(os.getpid(), "VmData") + int(share * available)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def _field(pid: int, name: str) -> int:
    try:
        status = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0  # it has just ended
    found = next((line for line in status.splitlines() if line.startswith(f"{name}:")), None)
    return int(found.split()[1]) * 1024 if found else 0
