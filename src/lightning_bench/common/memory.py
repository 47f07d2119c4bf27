"""Memory of processes: peaks, limits, and whether something ran out of it. Without torch."""

import os
import resource
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")


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


def reset_peak(pids: Iterable[int]) -> bool:
    """Reset the processes' peaks to what they hold now; False where the kernel doesn't let us."""
    try:
        for pid in pids:
            (_PROC / str(pid) / "clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes(pids: Iterable[int]) -> int:
    """The highest resident memory of each process since the reset, summed."""
    if not _PROC.is_dir():  # no Linux: this process's peak since its start, in kB or B
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if os.uname().sysname == "Darwin" else used * 1024
    return sum(_field(pid, "VmHWM") for pid in pids)


def resident_bytes(pids: Iterable[int]) -> int:
    """The resident memory of each process now, summed."""
    return sum(_field(pid, "VmRSS") for pid in pids)


def available_bytes() -> int | None:
    """The memory that the machine can still give without swapping."""
    try:
        lines = (_PROC / "meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith("MemAvailable:")), None)
    return int(found.split()[1]) * 1024 if found else None


def limit_to_available(share: float = 0.9) -> None:
    """Limit this process to a share of the available memory: more is an error at once.

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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception, or its cause, says that memory of the host or of a GPU ran out."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__
    return any(map(_says_out_of_memory, chain))


def oom_kills() -> int:
    """How many processes of this one's control group the kernel has killed for memory.

    Of the whole host where the group has no count of its own.
    """
    for path in (*_memory_events(), _PROC / "vmstat"):
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        kills = [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
        if kills:
            return kills[0]
    return 0


def _says_out_of_memory(error: BaseException) -> bool:
    words = (
        "can't allocate memory", "cannot allocate memory", "out of memory", "_status_alloc_failed",
    )  # fmt: skip
    if isinstance(error, MemoryError):
        return True
    # torch's and the system's errors; another one's text may be about anything.
    if not isinstance(error, RuntimeError | OSError):
        return False
    text = str(error)[:10_000].lower()
    return any(word in text for word in words)


def _memory_events() -> list[Path]:
    """Where the kernel counts what it did for the memory of this process's control group."""
    try:
        lines = (_PROC / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            found.append(_CGROUPS / group.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            found.append(_CGROUPS / "memory" / group.lstrip("/") / "memory.oom_control")
    return found


def _field(pid: int, name: str) -> int:
    try:
        status = (_PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0  # it has just ended
    found = next((line for line in status.splitlines() if line.startswith(f"{name}:")), None)
    return int(found.split()[1]) * 1024 if found else 0
