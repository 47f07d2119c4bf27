"""The installed `bench`, started as its users start it, in a folder; and how tests wait for it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

#: The script that this environment's installation left beside its interpreter.
BENCH = str(Path(sys.executable).with_name("bench"))
#: Makes the models of `tests.bench.misbehaving` importable, which a page may then name.
TESTS_IMPORTABLE = {
    "PYTHONPATH": os.pathsep.join(
        filter(None, [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")])
    )
}

T = TypeVar("T")


def start(
    *words: str, cwd: Path, env: Mapping[str, str | None] | None = None
) -> "subprocess.Popen[str]":
    """Start `bench` in a session of its own; `env` changes this process's, None takes away."""
    environment = {**os.environ, "COLUMNS": "120", **(env or {})}
    return subprocess.Popen(
        [BENCH, *words],
        cwd=cwd,
        env={name: value for name, value in environment.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def bench(
    *words: str, cwd: Path, env: Mapping[str, str | None] | None = None, timeout_s: float = 300
) -> "subprocess.CompletedProcess[str]":
    """Run `bench` to its end; what it printed, and its exit code."""
    process = start(*words, cwd=cwd, env=env)
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        process.kill()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def wait_for(condition: Callable[[], T], what: str = "", *, timeout_s: float = 120) -> T:
    """Wait until a condition holds, and return what it returned."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"it never came: {what}"
        time.sleep(0.05)
    return value


def lock_holders(lock: Path) -> list[int]:
    """The processes that hold a file's lock, from the kernel's own table."""
    try:
        inode = lock.stat().st_ino
    except FileNotFoundError:
        return []
    locks = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    return [int(pid) for _, kind, _, _, pid, place, *_ in locks
            if kind == "FLOCK" and place.endswith(f":{inode}")]  # fmt: skip
