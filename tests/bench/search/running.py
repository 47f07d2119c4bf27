"""`bench run` of small searches, as users start it: real processes and real training."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning_bench.bench.search import ledger
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.store.trial import Ledger
from lightning_bench.bench.study.load import load

ROOT = Path(__file__).parents[3]
BENCH = [sys.executable, "-c", "from lightning_bench.bench.cli import main; main()"]

PAGE = """\
title: Tuned
question: Which?
data: [digits]
entries:
  MLP: {model: mlp, args: {width: 16}, space: {args.depth: {int: [1, 3]}}}
seeds: 2
recipe: {epochs: 1, lr: 3e-3}
run_s: 1
search:
  trials: 12
  sampler: random
  pruner: none
  space:
    lr: {float: [1e-3, 1e-1], log: true}
scales: {smoke: {}}
"""


def write(folder: Path, text: str = PAGE, name: str = "tuned.yaml") -> None:
    (folder / name).write_text(text, encoding="utf-8")


def start(folder: Path, *arguments: str, command: str = "run") -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    return subprocess.Popen(
        [*BENCH, command, "tuned.yaml", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def bench(folder: Path, *arguments: str, command: str = "run", code: int = 0) -> str:
    process = start(folder, *arguments, command=command)
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == code, out + err
    return out + err


def ledgers(folder: Path, *settings: str) -> list[Ledger]:
    cells = load(str(folder / "tuned.yaml"), None, settings).cells()
    return [book.ledger() for book in ledger.books(cells, folder / "bench-store")]


def attempts(folder: Path) -> dict[str, list[Any]]:
    """Every attempt at a trial's run, by key, oldest first."""
    store = Store(folder / "bench-store")
    newest = store.scan()
    found = {key: [*store.earlier(attempt), attempt] for key, attempt in newest.items()}
    return {
        key: tried
        for key, tried in found.items()
        if any(one.record and not one.record.spec.tested for one in tried)
        or '"tested": false' in (tried[0].folder / "spec.json").read_text(encoding="utf-8")
    }


def wait(until: Callable[[], Any], seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := until()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def holder_of(lock: Path) -> int:
    """The process that holds a lock, from the kernel's own table."""
    inode = lock.stat().st_ino
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    return 0
