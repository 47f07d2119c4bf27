"""Processes of ours: ending with the parent, redirected output, exit codes in words."""

import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn


def die_with_parent() -> None:
    """End this process as soon as the parent's end of the pipe closes, however it died."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def start_with_pipe(
    context: ForkServerContext | SpawnContext,
    target: Callable[..., object],
    *arguments: Any,
    daemon: bool = False,
) -> tuple[BaseProcess, "Connection[Any, Any]"]:
    """Start a process whose first argument is one end of a pipe; return it and the other end."""
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=daemon)
    process.start()
    theirs.close()  # or its end would not be an end of file
    return process, ours


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


def how_it_ended(code: int) -> str:
    """A process's exit code in words, to go on a sentence."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
