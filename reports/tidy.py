"""The runs as a tidy CSV file: one row for each run and metric.

Columns: study, scale, dataset, group, entry, model, seed, key, state, reason, attempt, metric,
value, parameters, train_s, device_h, train_examples_per_s, peak_memory_bytes, revision, folder.
A run without a result has one row with an empty metric. Numbers are printed with all their digits.
Text that a spreadsheet would take for a formula gets an apostrophe in front.
"""

import csv
import io
from collections.abc import Iterable, Iterator

from reports.table import Report, Run

COLUMNS = (
    "study",
    "scale",
    "dataset",
    "group",
    "entry",
    "model",
    "seed",
    "key",
    "state",
    "reason",
    "attempt",
    "metric",
    "value",
    "parameters",
    "train_s",
    "device_h",
    "train_examples_per_s",
    "peak_memory_bytes",
    "revision",
    "folder",
)


def render(report: Report, runs: Iterable[Run]) -> str:
    """The CSV text, rows sorted by data set, entry and seed."""
    order = {
        row.label: place
        for place, row in enumerate(report.tables[0].rows)
        if row.source == "measured"
    }
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in sorted(runs, key=lambda run: (run.dataset, order[run.entry], run.seed, run.key)):
        for row in _rows(report, run):
            writer.writerow([row.get(column) for column in COLUMNS])
    return file.getvalue()


def _rows(report: Report, run: Run) -> Iterator[dict[str, object]]:
    row: dict[str, object] = {
        "study": _text(report.study),
        "scale": _text(report.scale),
        "dataset": _text(run.dataset),
        "group": _text(run.group),
        "entry": _text(run.entry),
        "seed": run.seed,
        "key": run.key,
        "state": run.state,
        "reason": _text(run.reason),
        "folder": _text(run.folder or ""),
    }
    metrics: dict[str, float] = {}
    if record := run.record:
        metrics = record.metrics
        row |= {
            "model": _text(record.spec.model.name),
            "attempt": record.attempt,
            "revision": record.provenance.git_revision,
        }
        if cost := record.cost:
            row |= {
                "parameters": cost.parameters,
                "train_s": cost.train_s,
                "device_h": cost.device_h,
                "train_examples_per_s": cost.train_examples_per_s,
                "peak_memory_bytes": cost.peak_memory_bytes,
            }
    if not metrics:
        yield row
    for metric, value in sorted(metrics.items()):
        yield row | {"metric": _text(metric), "value": repr(value)}


def _text(value: str) -> str:
    return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
