"""What the HTML report's page of a run shows, as data: the page draws a run when it is asked for.

What many runs share (a recipe, a revision, a data set) is kept once, so that the pages of 500 runs
fit into one file. Everything is text here but the curves; the page puts it in as text, too.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.record import Epoch, Record
from bench.spec import DataSpec, Recipe
from reports import text
from reports.table import Attempt, Run

# Numbers in all curves together, and points of one at most: what a page of 2 MB has room for.
NUMBERS, MOST = 60_000, 200
# Beyond this many runs the page leaves the curves out.
DRAWN_RUNS = 1_000

Facts = list[tuple[str, str]]
#: The place of each section, title and facts.
Shared = dict[tuple[str, tuple[tuple[str, str], ...]], int]


def data(runs: Sequence[Run]) -> dict[str, Any]:
    """`runs` in the order given, with what they share in `shared` by its place there."""
    shared: Shared = {}
    most = _points(runs) if len(runs) <= DRAWN_RUNS else 0
    pages = [_page(run, shared, most) for run in runs]
    return {"runs": pages, "shared": list(shared)}


def _points(runs: Sequence[Run]) -> int:
    """As many of each curve as there is room for."""
    series = [3 + len(r.record.curve[0].metrics) for r in runs if r.record and r.record.curve]
    return min(MOST, NUMBERS // max(sum(series), 1))


def _page(run: Run, shared: Shared, most: int) -> dict[str, Any]:
    record = run.record
    sections = _sections(record) if record else []
    page: dict[str, Any] = {
        "key": run.key,
        "entry": run.entry,
        "dataset": run.dataset,
        "seed": run.seed,
        "state": run.state,
        "why": _why(run),
        "facts": _facts(run),
        "shared": [_place(shared, *section) for section in sections],
    }
    if run.earlier:
        page["earlier"] = [_attempt(attempt) for attempt in run.earlier]
    if record and most > 1 and len(record.curve) > 1:
        page["curve"] = _curve(record.curve, most)
    return page


def _place(shared: Shared, title: str, facts: Facts) -> int:
    """Where a section is among the shared ones; it is put there if it is new."""
    known = tuple(fact for fact in facts if fact[1])
    return shared.setdefault((title, known), len(shared))


def _why(run: Run) -> str:
    if run.record and run.record.failure:
        failure = run.record.failure
        return f"{failure.kind}: {failure.message}"
    return "" if run.state == "done" else run.reason


def _facts(run: Run) -> Facts:
    """What is this run's alone."""
    record = run.record
    found: Facts = [("Folder", run.folder or ""), ("Log", f"{run.folder}/log.txt")]
    if record is None:
        return found if run.folder else []
    if record.failure:
        found[1] = ("Log", record.failure.log)
    found = [
        *((f"Test {name.replace('_', ' ')}", _number(x)) for name, x in record.metrics.items()),
        ("Attempt", str(record.attempt)),
        ("Time", f"{record.started} to {record.ended}"),
        *found,
    ]
    if record.predictions:
        found.append(("Predictions", f"predictions.npz, SHA-256 {record.predictions[:16]}…"))
    if cost := record.cost:
        found += [
            ("Training", f"{cost.train_s:.4g} s"),
            ("Whole run", f"{cost.total_s:.4g} s, {text.device_time(cost.device_h)}"),
            ("Training speed", f"{cost.train_examples_per_s:,.0f} examples/s"),
            ("Peak memory", f"{cost.peak_memory_bytes / 1e6:,.0f} MB"),
        ]
    return found


def _sections(record: Record) -> list[tuple[str, Facts]]:
    """What other runs are likely to share, by title."""
    spec, made = record.spec, record.provenance
    model: Facts = [(name, _plain(value)) for name, value in spec.model.args.items()]
    sections: list[tuple[str, Facts]] = [
        ("Model", [("Name", spec.model.name), *model, *_size(record)]),
        ("Recipe", _recipe(spec.recipe)),
        ("Data", [*_settings(spec.data), *_data(record)]),
        (
            "Provenance",
            [
                ("Command", " ".join(map(_portable, made.command))),
                ("bench", made.bench_version),
                ("Revision", (made.git_revision or "") + " with changes" * bool(made.git_dirty)),
                ("Device", f"{made.devices} × {made.device}"),
                ("Threads", str(made.threads)),
                ("Environment", made.environment or ""),
                ("Sources", _sources(tuple(made.sources.items()))),
            ],
        ),
    ]
    return sections


@lru_cache
def _recipe(recipe: Recipe) -> Facts:
    """Of thousands of runs that have the same one."""
    found = recipe.model_dump(mode="json")
    return [(name.replace("_", " "), _plain(value)) for name, value in found.items()]


@lru_cache
def _settings(data: DataSpec) -> Facts:
    found = data.model_dump(mode="json", exclude_defaults=True)
    return [(name, _plain(value)) for name, value in found.items()]


@lru_cache
def _sources(marks: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{path} {mark[:8]}" for path, mark in marks)


def _portable(word: str) -> str:
    """A word of a command line without the folders of the machine it ran on."""
    return Path(word).name if word.startswith("/") else word


def _size(record: Record) -> Facts:
    if not (cost := record.cost):
        return []
    return [("parameters", f"{cost.parameters:,} ({cost.trainable_parameters:,} trained)")]


def _data(record: Record) -> Facts:
    if not (seen := record.data):
        return []
    return [
        ("examples", f"{seen.train:,} training, {seen.val:,} validation, {seen.test:,} test"),
        ("scored", f"{record.scored:,} test examples"),
        ("fingerprint", seen.fingerprint[:16]),
    ]


def _attempt(attempt: Attempt) -> list[str]:
    took = text.device_time(attempt.device_h)
    return [str(attempt.number), attempt.end, attempt.cause, took, attempt.log]


def _curve(curve: Sequence[Epoch], most: int) -> dict[str, list[float | None]]:
    """Epochs and the series over them, thinned to so many points."""
    kept = text.thinned(curve, most)
    series: dict[str, list[float | None]] = {
        "epoch": [point.epoch for point in kept],
        "training loss": [_short(point.train_loss) for point in kept],
        "validation loss": [_short(point.val_loss) for point in kept],
    }
    for name in dict.fromkeys(name for point in kept for name in point.metrics):
        values = [_short(point.metrics.get(name)) for point in kept]
        series[f"validation {name.replace('_', ' ')}"] = values
    return {name: values for name, values in series.items() if any(v is not None for v in values)}


def _short(value: float | None) -> float | None:
    """Four digits, which no eye sees past; None for what can't be drawn."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None


def _number(value: float) -> str:
    return f"{value:.6g}"


def _plain(value: object) -> str:
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
