"""Failures of the ranks of an attempt: a file of each, for whoever writes the run's record."""

import json
import time
from pathlib import Path

from lightning_bench.bench.store.record import Failure
from lightning_bench.common.files import read_regular, write_atomically


def write_failure(folder: Path, rank: int, failure: Failure) -> None:
    """Write to the attempt's folder why a rank failed."""
    content = {"moment": time.time(), "failure": failure.model_dump()}
    write_atomically(folder / f"failure-{rank}.json", json.dumps(content).encode())


def first_failure(folder: Path) -> Failure | None:
    """The failure of the rank that failed first, as far as they have been written."""
    failures = [json.loads(read_regular(path)) for path in folder.glob("failure-*.json")]
    if not failures:
        return None
    return Failure.model_validate(min(failures, key=lambda each: float(each["moment"]))["failure"])
