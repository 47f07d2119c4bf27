"""What `bench run` of a complete study takes.

    python -m benchmarks.complete            about 2 minutes on two cores, most of it the study

Runs quickstart once in a store of its own, then again and again, in turns with `bench --help`,
which does nothing, and prints the medians and their ratio. Target: under 1 s.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.common import BENCH, verdict


def seconds(arguments: list[str], folder: Path) -> float:
    """The wall time of a command, which must succeed."""
    began = time.perf_counter()
    subprocess.run(
        [*BENCH, *arguments], cwd=folder, env=os.environ | {"COLUMNS": "100"},
        capture_output=True, check=True,
    )  # fmt: skip
    return time.perf_counter() - began


def main(rounds: int = 9) -> None:
    """Print what it takes."""
    again = ["run", "quickstart"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"quickstart: {seconds(again, folder):.1f} s", flush=True)
        seconds(again, folder)  # the last one has written the report
        ways: dict[str, list[float]] = {"help": [], "again": []}
        for _ in range(rounds):
            ways["help"].append(seconds(["--help"], folder))
            ways["again"].append(seconds(again, folder))
    nothing, complete = (median(found) for found in ways.values())
    print(
        f"complete, again: {complete:.2f} s, {complete / nothing:.2f} × bench --help "
        f"({nothing:.2f} s), medians of {rounds}; {verdict(complete, 1, 's')}",
        flush=True,
    )


if __name__ == "__main__":
    main()
