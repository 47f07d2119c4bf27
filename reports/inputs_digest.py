"""A report's inputs as one digest: the same digest means the same report."""

import hashlib
import json
from collections.abc import Iterable

from lightning_bench.reports.report import REPORT_VERSION, Request, Run


def inputs(request: Request, runs: Iterable[Run]) -> str:
    """SHA-256 of the request and of each run's key, state and record, in any order.

    Needs no pandas, scipy or matplotlib: compare it with `Report.inputs` to know whether a
    report on disk is current.
    """
    asked = json.dumps(request.model_dump(mode="json"), sort_keys=True)
    digest = hashlib.sha256(f"{REPORT_VERSION}\n{asked}".encode())
    for line in sorted(map(_line, runs)):
        digest.update(line)
    return digest.hexdigest()


def _line(run: Run) -> bytes:
    head = "\t".join([run.dataset, run.entry, f"{run.seed:010}", run.key, run.state, run.reason])
    record = run.checksum or (run.record.model_dump_json() if run.record else "")
    return f"\n{head}\t{record}".encode()
