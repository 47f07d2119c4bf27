"""What starting a run costs, and what a second job gains; ratios measured in one run.

    python -m benchmarks.scheduling          about 5 minutes on two cores

Prints (1) the wall time of a run that trains for one epoch, less its training, from the fork
server and in a fresh interpreter, and (2) quickstart's wall time with two jobs over one, taken
in turns. Targets: at most 0.5 s to start a run after the first; at most 0.6 of one job's time.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
BENCH = [sys.executable, "-c", "from bench.cli import main; main()"]
FRESH = """
import time
began = time.perf_counter()
from bench.study import load
from bench.training import train
import torch
torch.set_num_threads(1)
spec = load("quickstart", None, ["recipe.epochs=1"]).runs()[0].spec
outcome = train(spec, device="cpu", tell=lambda epoch: None)
print(time.perf_counter() - began - outcome.train_s)
"""


def run(store: Path, *settings: str) -> float:
    """Seconds of one `bench run quickstart`."""
    began = time.perf_counter()
    command = [*BENCH, "run", "quickstart", "--store", str(store), *settings]
    subprocess.run(command, **CAPTURED)
    return time.perf_counter() - began


def start_costs(folder: Path) -> None:
    """Print what a run costs beside its training: from the last run's end to its own, less it."""
    run(folder / "store", "--jobs", "1", "--set", "recipe.epochs=1", "--set", "seeds=6")
    paths = (folder / "store" / "runs").glob("*/record.json")
    records = [json.loads(path.read_bytes())["record"] for path in paths]
    records.sort(key=lambda record: record["ended"])
    ends = [datetime.fromisoformat(record["ended"]).timestamp() for record in records]
    costs = [ends[i] - ends[i - 1] - records[i]["cost"]["train_s"] for i in range(1, len(records))]
    warm = median(costs)
    fresh = median(
        float(subprocess.run([sys.executable, "-c", FRESH], **CAPTURED).stdout) for _ in range(3)
    )
    print(
        f"start of a run: fork server {warm:.3f} s (of {len(costs)}: {min(costs):.3f} to "
        f"{max(costs):.3f}), fresh interpreter {fresh:.3f} s, ratio {warm / fresh:.3f}; "
        f"target 0.5 s: {'met' if warm <= 0.5 else 'MISSED'}"
    )


def jobs_ratio(folder: Path, rounds: int) -> None:
    """Print quickstart's time with two jobs over one."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for i in range(rounds):
        for jobs in (1, 2):
            times[jobs].append(run(folder / f"{jobs}-{i}", "--jobs", str(jobs)))
    ratios = sorted(two / one for one, two in zip(times[1], times[2], strict=True))
    ratio = median(ratios)
    print(
        f"quickstart: one job {median(times[1]):.1f} s, two jobs {median(times[2]):.1f} s, "
        f"ratio {ratio:.3f} (of {rounds}: {ratios[0]:.3f} to {ratios[-1]:.3f}); "
        f"target 0.6: {'met' if ratio <= 0.6 else 'MISSED'}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        start_costs(Path(name))
        jobs_ratio(Path(name), options.rounds)
