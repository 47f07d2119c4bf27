"""Processes of ours: ending with the parent, redirected output, exit codes in words."""

import ctypes
import gc
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import connection, forkserver, parent_process, resource_tracker, util
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

from lightning_bench.common.memory import tree

#: Of Linux's prctl.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
#: A socket's path may have 104 bytes on macOS, 108 on Linux; multiprocessing adds 33.
_LONGEST_SOCKET_FOLDER = 70


def die_with_parent() -> None:
    """End this process as soon as the parent's end of the pipe closes, however it died.

    On Linux the kernel sees to it, too: a process that a signal has stopped watches nothing.
    """
    parent = parent_process()
    if parent is None:
        return
    end_with_parent()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def preload(context: ForkServerContext | SpawnContext, modules: Iterable[str]) -> None:
    """Have the fork server import these, so that its forks need not; it ends with this process."""
    context.set_forkserver_preload(["lightning_bench.common.fork_server", *modules])


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; Linux alone does."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_with_pipe(
    context: ForkServerContext | SpawnContext,
    target: Callable[..., object],
    *arguments: Any,
    daemon: bool = False,
) -> tuple[BaseProcess, "Connection[Any, Any]"]:
    """Start a process whose first argument is one end of a pipe; return it and the other end."""
    ours, theirs = context.Pipe()
    if isinstance(context, ForkServerContext):
        _start_fork_server()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=daemon)
    process.start()
    theirs.close()  # or its end would not be an end of file
    return process, ours


def _start_fork_server() -> None:
    """Start the fork server, unless it runs, deaf to Ctrl-C, which is its parent's to answer.

    By itself it ignores SIGINT only after its imports, which take seconds with torch.
    """
    _make_place_for_sockets()
    resource_tracker.ensure_running()  # or starting that would lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _make_place_for_sockets() -> None:
    """Have multiprocessing put its sockets where their paths are short enough for the kernel.

    It makes a folder in the temporary one, whose path may be as long as the job's name, and keeps
    to that folder, in the processes that it starts too.
    """
    usual = tempfile.gettempdir()
    if len(usual) <= _LONGEST_SOCKET_FOLDER:
        return
    for folder in ("/tmp", "/var/tmp", str(Path.home()), str(Path.cwd())):
        if len(folder) <= _LONGEST_SOCKET_FOLDER and os.access(folder, os.W_OK | os.X_OK):
            tempfile.tempdir = folder
            try:
                util.get_temp_dir()
            finally:
                tempfile.tempdir = usual
            return


def send_output(path: str | Path) -> None:
    """Append whatever is printed, by C libraries too, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def discard_output() -> None:
    """Have whatever is printed from now on go nowhere: its reader has what it wanted."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def end_now(code: int) -> NoReturn:
    """End this process without what Python and C++ do at an exit, which may wait for others.

    As the destructor of an NCCL process group does, for what other ranks have not done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def free_at_exit(thing: object) -> None:
    """Never free an object: the kernel does, at this process's end, with all of its memory.

    Python would free ten thousand records one by one, for a tenth of the time that their report
    takes. What an application does at its exit is done all the same.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    gc.freeze()  # or the last collection would look through it


def is_stopped(pid: int | None) -> bool:
    """Whether a signal has stopped a process of this host, as SIGSTOP does; Linux alone tells."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in {"T", "t"}


def how_it_ended(code: int) -> str:
    """A process's exit code in words, to go on a sentence."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"


#: Signals by which the kernel ends a program for what it did itself.
_CRASHES = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS}
)


def ended_by_itself(code: int) -> bool:
    """Whether a process's exit code tells of an exit or a crash, and not of somebody's signal."""
    return code >= 0 or -code in _CRASHES


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that `end_descendants` sees them.

    Linux alone has that; elsewhere they are left to themselves.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def end_descendants(pid: int | None = None) -> None:
    """Kill all processes that this one, or another, has started and left behind."""
    for child in reversed(tree(pid)[1:]):
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)


def exit_within(seconds: float, code: int) -> None:
    """Exit by then even if threads that somebody has left behind go on."""

    def wait() -> None:
        time.sleep(seconds)
        end_descendants()
        end_now(code)

    threading.Thread(target=wait, daemon=True, name="exit").start()
