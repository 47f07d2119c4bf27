"""How near the estimates of `bench plan` come to what runs take on this host.

    python -m benchmarks.estimates [STUDY[:SCALE] …]       about 5 minutes on two cores

Plans each study in an empty store, runs it with one seed, one run at a time, and prints the seconds
that its runs were estimated to take, those of processor time that they took from start to record
(whatever else the machine did), and their ratio; also that of the memory at its peak. Target: each
study's seconds within a factor of 2.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import BENCH, verdict

#: Small networks, ConvNets, patches and texts; from scratch, tuned and measured by probes.
STUDIES = (
    "quickstart", "batch-norm", "cpu-vision", "cpu-text", "shift-robustness",
    "optimizers", "position-embeddings", "bias", "sgu-variants", "tiny-attention",
)  # fmt: skip


def main() -> int:
    """Plan, run and compare each of the studies."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("studies", nargs="*", default=STUDIES)
    wanted = parser.parse_args().studies
    within = 0
    for named in wanted:
        study, _, scale = named.partition(":")
        with tempfile.TemporaryDirectory() as store:
            estimated, took, memory = compare(study, scale or "smoke", Path(store))
        ratio = estimated / took
        within += 0.5 <= ratio <= 2
        print(
            f"{named:24} estimated {estimated:7.1f} s, took {took:7.1f} s: {ratio:5.2f}; "
            f"memory {memory:4.2f} of the peak"
        )
    off = len(wanted) - within
    print(f"{off} of {len(wanted)} are off by more than a factor of 2; {verdict(off, 0)}")
    return int(within < len(wanted))


def compare(study: str, scale: str, store: Path) -> tuple[float, float, float]:
    """Seconds estimated and taken by all runs of a study, and estimated over measured memory."""
    words = [study, "--scale", scale, "--store", str(store), "--set", "seeds=[0]"]
    before = {row["key"]: row for row in planned(words)}
    subprocess.run([*BENCH, "run", *words, "--jobs", "1", "-q"], check=True, capture_output=True)
    costs = {path.parent.name.partition(".")[0]: cost(path) for path in records(store)}
    done = before.keys() & costs.keys()
    estimated = sum(before[key]["expected_s"] or 0.0 for key in done)
    peaks = [before[key]["memory_bytes"] / costs[key]["peak_memory_bytes"] for key in done]
    return estimated, sum(costs[key]["processor_s"] for key in done), sum(peaks) / len(peaks)


def planned(words: list[str]) -> list[dict[str, Any]]:
    """The rows of a plan."""
    words = [*BENCH, "plan", *words, "--format", "json"]
    rows: list[dict[str, Any]] = json.loads(subprocess.check_output(words))
    return rows


def records(store: Path) -> list[Path]:
    """The records of a store."""
    return sorted(store.glob("runs/*/record.json"))


def cost(path: Path) -> dict[str, Any]:
    """What a run took."""
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["record"]["cost"]
    return made


if __name__ == "__main__":
    sys.exit(main())
