"""What all attempts at a run took, those too that gave no result, and why each of these ended."""

import math
from collections.abc import Iterable
from datetime import datetime

from lightning_bench.bench.store import store as stores
from lightning_bench.bench.store.record import Record
from lightning_bench.reports.report import Attempt, End, Lost
from lightning_bench.reports.request import ReportedRun, Request


def before(newest: stores.Attempt, store: stores.Store) -> list[Attempt]:
    """What came before the record; a newest attempt that left none is among it, once it ended."""
    ended = [] if newest.record or newest.state == "running" else [newest]
    return [
        _of_attempt(attempt, store)
        for attempt in [*store.earlier(newest), *ended]
        if attempt.state != "running"
    ]


def _of_attempt(attempt: stores.Attempt, store: stores.Store) -> Attempt:
    log = str((attempt.folder / "log.txt").relative_to(store.root))
    if attempt.record:
        return of_record(attempt.record, log)
    if attempt.state == "damaged" or (attempt.folder / "record.json.damaged").exists():
        cause = f"its record is damaged: {attempt.problem}".rstrip(": ")
        return Attempt(number=attempt.number, end="damaged", cause=cause, log=log)
    return Attempt(
        number=attempt.number, end="interrupted", cause="ended without a record", log=log
    )


def of_record(record: Record, log: str) -> Attempt:
    """The attempt behind a record that is not the result of its run."""
    end: End = "replaced"
    cause = "finished; a later attempt took its place"
    if record.failure:
        end, log = "failed", record.failure.log
        cause = f"{record.failure.kind}: {record.failure.message}"
    elif record.status == "pruned":
        end, cause = "pruned", "stopped early, on request"
    return Attempt(number=record.attempt, end=end, cause=cause, log=log, device_h=device_h(record))


def device_h(record: Record) -> float | None:
    """What an attempt took: as it measured, else by its clock, None where that is not known."""
    if record.cost:
        return record.cost.device_h
    took = datetime.fromisoformat(record.ended) - datetime.fromisoformat(record.started)
    # A process that vanished had no time to leave its own.
    return took.total_seconds() * record.provenance.devices / 3600 if took else None


def cores(record: Record) -> int:
    """Cores that a run occupied: its CPU threads, or its accelerators."""
    where = record.provenance
    return where.devices * (where.threads if where.device == "cpu" else 1)


def core_days(runs: Iterable[ReportedRun], trials_device_h: float = 0.0) -> float | None:
    """Core-days of all attempts at these runs, and of the search's trials before them."""
    total, known, each = 0.0, False, 1.0
    for run in runs:
        if run.record is None:
            continue
        # Earlier attempts and trials are taken to have run as the newest did.
        each = cores(run.record) / run.record.provenance.devices
        total += each * math.fsum(hours for hours in spent(run) if hours is not None)
        known = True
    return (total + each * trials_device_h) / 24 if known else None


def spent(run: ReportedRun) -> list[float | None]:
    """Device-hours of every attempt at a run, the newest last."""
    newest = [device_h(run.record)] if run.record and run.state != "running" else []
    return [*(attempt.device_h for attempt in run.earlier), *newest]


def total(runs: Iterable[ReportedRun]) -> tuple[float, int]:
    """Device-hours of all attempts at these runs, and of how many attempts they are not known."""
    every = [hours for run in runs for hours in spent(run)]
    known = [hours for hours in every if hours is not None]
    return math.fsum(known), len(every) - len(known)


def lost(request: Request, runs: Iterable[ReportedRun]) -> list[Lost]:
    """Every attempt that is no result, by data set, entry, seed and number."""
    entries = list(request.entries)
    datasets = list(request.metrics)

    def place(run: ReportedRun) -> tuple[int, int, int]:
        return datasets.index(run.dataset), entries.index(run.entry), run.seed

    attempts = []
    for run in sorted(runs, key=place):
        not_results = list(run.earlier)
        if run.record and (run.record.failure or run.record.status != "done"):
            not_results.append(of_record(run.record, f"{run.folder}/log.txt"))
        attempts += [
            Lost(dataset=run.dataset, entry=run.entry, seed=run.seed, key=run.key, attempt=attempt)
            for attempt in not_results
        ]
    return attempts
