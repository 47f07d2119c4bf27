"""A report's inputs as one digest: the same digest means the same report."""

import hashlib
import json
from collections.abc import Iterable

from lightning_bench.reports.report import REPORT_VERSION
from lightning_bench.reports.request import ReportedRun, Request


def inputs(request: Request, runs: Iterable[ReportedRun]) -> str:
    """SHA-256 of the request and of each run's key, state and record, in any order.

    Needs no pandas, scipy or matplotlib: compare it with `Report.inputs` to know whether a
    report on disk is current.
    """
    # What a run asks of a cluster, and how long it might take, change no result.
    asked = request.model_dump(mode="json", exclude={"study": {"cluster"}})
    digest = hashlib.sha256(f"{REPORT_VERSION}\n{json.dumps(asked, sort_keys=True)}".encode())
    for line in sorted(map(_line, runs)):
        digest.update(line)
    return digest.hexdigest()


def _line(run: ReportedRun) -> bytes:
    head = "\t".join([run.dataset, run.entry, f"{run.seed:010}", run.key, run.state, run.reason])
    head += f"\t{run.varied}" if run.varied else ""
    record = run.checksum or (run.record.model_dump_json() if run.record else "")
    return f"\n{head}\t{record}".encode()
