"""The runs as tidy data, CSV or Parquet: one row for each run and metric.

A run without a result has one row with an empty metric. Both files hold the columns of FIELDS;
Parquet carries their descriptions with it. In CSV numbers are printed with all their digits, and
text that a spreadsheet would take for a formula gets an apostrophe in front.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from lightning_bench.reports.report import Report
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.tables import failed_attempts

Value = str | int | float | None
Row = dict[str, Value]


@dataclass(frozen=True)
class Field:
    """A column: what it is called, holds and means."""

    name: str
    type: Literal["text", "integer", "number"]
    means: str


FIELDS = (
    Field("study", "text", "name of the study"),
    Field("scale", "text", "its scale: smoke, small or full"),
    Field("dataset", "text", "data set, as the tables call it"),
    Field("group", "text", "group of rows that the entry stands in"),
    Field("entry", "text", "label of the entry"),
    Field("model", "text", "name of the model variant; empty where no record is"),
    Field("seed", "integer", "seed of the run; runs of one seed are paired"),
    Field("varied", "text", "the one source of randomness that goes by the seed; empty: all do"),
    Field("key", "text", "name of the run in the store"),
    Field("state", "text", "done, missing, stale, failed, running or pruned"),
    Field("reason", "text", "why it is in that state"),
    Field("attempt", "integer", "number of the attempt that the row is about"),
    Field("metric", "text", "name of a test metric; empty where there is no result"),
    Field("value", "number", "its value in its own unit: accuracies are shares of one"),
    Field("parameters", "integer", "parameters of the model, counted from the module"),
    Field("train_s", "number", "wall time of training with validation, in seconds"),
    Field("device_h", "number", "device-hours of this attempt, from its start to its end"),
    Field("train_examples_per_s", "number", "training examples a second, validation left out"),
    Field(
        "peak_memory_bytes",
        "integer",
        "highest memory use of the run: of a process on a CPU, of its tensors on a GPU",
    ),
    Field("revision", "text", "git revision that it was made with"),
    Field("folder", "text", "folder of the attempt, relative to the store"),
    Field("attempts", "integer", "attempts at the run so far, this one too"),
    Field("all_device_h", "number", "device-hours of all attempts, as far as they are known"),
    Field("device", "text", "where it was trained: cpu or cuda"),
    Field("device_kind", "text", "the GPU's name; empty on a CPU and in older records"),
    Field("devices", "integer", "how many of these shared the run"),
    Field(
        "nondeterministic",
        "text",
        "operations without a deterministic form on this device, which a repetition may not equal",
    ),
)
COLUMNS = tuple(field.name for field in FIELDS)
KEY = ("dataset", "entry", "seed", "key", "metric")
_RUN = KEY[:-1]


def csv_text(rows: Iterable[Row]) -> str:
    """The rows as CSV."""
    lines, names = [_csv_line(COLUMNS)], dict[Value, str]({"": ""})
    place = COLUMNS.index("metric")
    assert COLUMNS[place + 1] == "value"
    for found in _by_run(rows):
        # Of a run's rows all but these two are the same, and made into text once.
        before, after = (
            _csv_line([found[0].get(column) for column in part])
            for part in (COLUMNS[:place], COLUMNS[place + 2 :])
        )
        for row in found:
            metric, value = row.get("metric", ""), row.get("value", "")
            if metric not in names:
                names[metric] = _csv_line([metric])
            lines.append(f"{before},{names[metric]},{value},{after}")
    return "\n".join(lines) + "\n"


def _csv_line(values: Iterable[Value]) -> str:
    """Some values of a line, without its end."""
    file = io.StringIO()
    shown = [_disarmed(value) if isinstance(value, str) else value for value in values]
    csv.writer(file, lineterminator="").writerow(shown)
    return file.getvalue()


def _by_run(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows of each run, which follow each other and differ in metric and value alone."""
    for _, found in groupby(rows, key=lambda row: [row.get(name) for name in _RUN]):
        yield list(found)


def parquet(report: Report, rows: Iterable[Row]) -> bytes:
    """The rows as a Parquet file whose schema says what each column means."""
    import pyarrow
    from pyarrow.json import ParseOptions, read_json
    from pyarrow.parquet import write_table

    types: dict[str, Any] = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
    }
    schema = pyarrow.schema(
        [
            pyarrow.field(field.name, types[field.type], metadata={"description": field.means})
            for field in FIELDS
        ],
        metadata={"title": report.title, "report": report.inputs},
    )
    by_run = list(_by_run(rows))
    table = schema.empty_table()
    if by_run:
        # By way of JSON, since arrays that are made from lists import pandas, which takes longer:
        # what is a run's once, and its results with the place of their run.
        place = pyarrow.field("place", pyarrow.int64())
        results = pyarrow.schema([place, schema.field("metric"), schema.field("value")])
        of_runs = [found[0] | {"metric": None, "value": None} for found in by_run]
        of_results = [
            {"place": place, "metric": row.get("metric"), "value": row.get("value")}
            for place, found in enumerate(by_run)
            for row in found
        ]
        runs_table, results_table = (
            read_json(
                io.BytesIO("\n".join(map(json.dumps, part)).encode()),
                parse_options=ParseOptions(explicit_schema=explicit),
            )
            for part, explicit in ((of_runs, schema), (of_results, results))
        )
        table = runs_table.take(results_table["place"])
        for name in ("metric", "value"):
            number = table.schema.get_field_index(name)
            table = table.set_column(number, schema.field(name), results_table[name])
    file = io.BytesIO()
    write_table(table.select(COLUMNS).cast(schema), file, compression="zstd")
    return file.getvalue()


def rows(report: Report, runs: Iterable[ReportedRun]) -> list[Row]:
    """Values by column, sorted by data set, entry and seed; what is not known is left out."""
    order = {row.label: place for place, row in enumerate(report.tables[0].measured)}
    runs = sorted(runs, key=lambda run: (run.dataset, order[run.entry], run.seed, run.key))
    return [row for run in runs for row in _rows(report, run)]


def _rows(report: Report, run: ReportedRun) -> Iterator[Row]:
    spent = failed_attempts.spent(run)
    row: Row = {
        "study": report.study,
        "scale": report.scale,
        "dataset": run.dataset,
        "group": run.group,
        "entry": run.entry,
        "seed": run.seed,
        "varied": run.varied,
        "key": run.key,
        "state": run.state,
        "reason": run.reason,
        "folder": run.folder or "",
        "attempts": len(spent),
        "all_device_h": failed_attempts.total([run])[0],
    }
    metrics: dict[str, float] = {}
    if record := run.record:
        metrics = record.metrics
        row |= {
            "model": record.spec.model.name,
            "attempt": record.attempt,
            "revision": record.provenance.git_revision,
            "device": record.provenance.device,
            "device_kind": record.provenance.device_kind,
            "devices": record.provenance.devices,
            "nondeterministic": ", ".join(record.nondeterministic),
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
        yield row | {"metric": metric, "value": value}


def _disarmed(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
