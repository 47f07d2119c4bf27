"""What starting a run costs, how busy slots are, and what a second job gains.

    python -m benchmarks.scheduling          about 7 minutes on two cores

Prints (1) the wall time of a run that trains for one epoch, less its training, from the fork
server and in a fresh interpreter, (2) how much of the time of all slots, from the first run's start
to the last record, runs were at work, each from the first line of its process to its record, in a
study of 50 short runs, and (3) quickstart's wall time with two jobs over one, taken in turns.
Targets: at most 0.5 s to start a run after the first; slots 95 % busy; at most 0.6 of one job's
time.
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

from benchmarks.common import BENCH, verdict

CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
FIFTY = """\
title: Fifty short runs
question: How busy are the slots?
data: [digits]
entries:
  MLP: {model: mlp, args: {depth: 2, width: 106}}
  LeNet: {model: lenet}
seeds: 25
recipe: {epochs: 15}
scales: {smoke: {}}
"""
FRESH = """
import time
began = time.perf_counter()
from lightning_bench.bench.study.load import load
from lightning_bench.bench.run.training import train
import torch
torch.set_num_threads(1)
spec = load("quickstart", None, ["recipe.epochs=1"]).runs()[0].spec
outcome = train(spec, device="cpu", on_epoch=lambda epoch: None)
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
    found = sorted(records(folder / "store"), key=lambda record: record["ended"])
    ends = [datetime.fromisoformat(record["ended"]).timestamp() for record in found]
    costs = [ends[i] - ends[i - 1] - found[i]["cost"]["train_s"] for i in range(1, len(found))]
    warm = median(costs)
    fresh = median(
        float(subprocess.run([sys.executable, "-c", FRESH], **CAPTURED).stdout) for _ in range(3)
    )
    print(
        f"start of a run: fork server {warm:.3f} s (of {len(costs)}: {min(costs):.3f} to "
        f"{max(costs):.3f}), fresh interpreter {fresh:.3f} s, ratio {warm / fresh:.3f}; "
        f"{verdict(warm, 0.5, 's')}"
    )


def occupancy(folder: Path) -> None:
    """Print how busy one slot and two slots were in a study of 50 runs."""
    (folder / "fifty.yaml").write_text(FIFTY, encoding="utf-8")
    for jobs in (1, 2):
        store = folder / f"fifty-{jobs}"
        words = ["run", str(folder / "fifty.yaml"), "--store", str(store), "--jobs", str(jobs)]
        subprocess.run([*BENCH, *words], **CAPTURED)
        spans = sorted(
            (datetime.fromisoformat(record["started"]).timestamp(), record["written"])
            for record in records(store)
        )
        wall = max(end for _, end in spans) - spans[0][0]
        lengths = [end - start for start, end in spans]
        busy = sum(lengths) / (jobs * wall)
        print(
            f"{len(spans)} runs of {median(lengths):.2f} s, {jobs} at a time: slots "
            f"{100 * busy:.1f} % busy, {(jobs * wall - sum(lengths)) / len(spans) * 1000:.0f} ms "
            f"idle a run; target 95 %: {'met' if busy >= 0.95 else 'MISSED'}"
        )


def records(store: Path) -> list[dict[str, Any]]:
    """All records of a store, with the moment in which each was there."""
    paths = (store / "runs").glob("*/record.json")
    return [
        {**json.loads(path.read_bytes())["record"], "written": path.stat().st_ctime}
        for path in paths
    ]


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
        f"{verdict(ratio, 0.6)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        start_costs(Path(name))
        occupancy(Path(name))
        jobs_ratio(Path(name), options.rounds)
