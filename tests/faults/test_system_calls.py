"""Fault injection at the system calls that touch a store: each ends in one line, and heals.

A library that is preloaded counts the calls of all processes, and makes one fail, or kills its
process before it. After each such fault: a documented exit code, no traceback, and after the same
command the calm table. `FAULT_POINTS` and `FAULT_SEED` in the environment ask for more, and for
others: `FAULT_POINTS=all pytest -s tests/faults/test_system_calls.py`.
"""

import errno
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from lightning_bench.bench.store.store import Store
from tests.commands import bench
from tests.factory import study_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, for the faults"),
]

POINTS = os.environ.get("FAULT_POINTS", "8")
SEED = int(os.environ.get("FAULT_SEED", "1"))
FAULTS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EACCES": errno.EACCES, "EINTR": errno.EINTR}
FAULTS["SIGKILL"] = 0
#: Of `bench run`: done, store not usable, wrong before the start, a run not done.
DOCUMENTED = {0, 1, 2, 3}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "faulty_calls.so"
    source = Path(__file__).with_name("faulty_calls.c")
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-o", path, source, "-ldl"]
    subprocess.run(command, check=True)
    return path


def run(folder: Path, library: Path, at: int = 0, fault: int = 0) -> tuple[int, str, int]:
    """Run the study with a fault: its exit code, what it printed, how many calls there were."""
    count = folder / "count"
    count.write_bytes(bytes(8))
    faults = {
        "LD_PRELOAD": str(library),
        "FAULT_STORE": str(folder / "bench-store"),
        "FAULT_COUNT": str(count),
        "FAULT_AT": str(at),
        "FAULT_ERRNO": str(fault),
    }
    done = bench("run", "page.yaml", "--jobs", "1", cwd=folder, env=faults, timeout_s=120)
    calls = int.from_bytes(count.read_bytes(), "little")
    return done.returncode, done.stdout + done.stderr, calls


def results(folder: Path) -> dict[str, dict[str, float]]:
    attempts = Store(folder / "bench-store").scan().values()
    return {attempt.key: attempt.record.metrics for attempt in attempts if attempt.record}


def study(folder: Path) -> Path:
    folder.mkdir()
    page = study_page(
        entries={"A": {"model": "mlp", "args": {"width": 4}}},
        recipe={"epochs": 2, "batch_size": 512},
        seeds=2,
    )
    (folder / "page.yaml").write_text(page, encoding="utf-8")
    return folder


def test_a_call_that_fails_costs_a_run_at_most(tmp_path: Path, library: Path) -> None:
    calm = study(tmp_path / "calm")
    code, said, calls = run(calm, library)
    assert (code, calls > 100) == (0, True), said
    expected = results(calm)
    numbers = range(1, calls + 1)
    every = [(at, fault) for at in numbers for fault in FAULTS]
    points = every if POINTS == "all" else random.Random(SEED).sample(every, int(POINTS))
    wrong = []
    for at, fault in points:
        folder = study(tmp_path / "hurt")
        code, said, _ = run(folder, library, at, FAULTS[fault])
        known = code in DOCUMENTED or (fault == "SIGKILL" and code == -9)
        if not known or "Traceback" in said:
            wrong.append(f"{fault} at call {at}: exit code {code}\n{said[-1500:]}")
        again = bench("run", "page.yaml", "--retry-failed", cwd=folder, timeout_s=120)
        if again.returncode or results(folder) != expected:
            wrong.append(
                f"{fault} at call {at}: not healed, {results(folder)}\n{said[-1500:]}\n"
                f"{again.returncode}: {again.stdout[-1500:]}{again.stderr[-1500:]}"
            )
        shutil.rmtree(folder)
    print(f"{len(points)} faults of {len(every)} at {calls} calls, seed {SEED}: {len(wrong)} wrong")  # noqa: T201
    assert not wrong, "\n\n".join(wrong)
