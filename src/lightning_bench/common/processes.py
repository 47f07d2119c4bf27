"""Processes of ours: ending with the parent, redirected output, exit codes in words."""

import ctypes
import gc
import os
import signal
import sys
import threading
from multiprocessing import connection, parent_process
from pathlib import Path


def die_with_parent() -> None:
    """End this process as soon as the parent's end of the pipe closes, however it died."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


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
