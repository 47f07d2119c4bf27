"""What the HTML report's page of a run shows, as data: the page draws a run when it is asked for.

What many runs share (a recipe, a revision, a data set) is kept once, so that the pages of 500 runs
fit into one file. Everything is text here but the curves; the page puts it in as text, too.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lightning_bench.bench.store.record import Epoch, Record
from lightning_bench.reports.report import Attempt
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.text import numbers

# Numbers in all curves together, and points of one at most: what a page of 2 MB has room for.
NUMBERS, MOST = 60_000, 200
# Beyond this many runs the page leaves the curves out.
DRAWN_RUNS = 1_000

Facts = list[tuple[str, str]]


def data(runs: Sequence[ReportedRun]) -> dict[str, Any]:
    """`runs` in the order given, with what they share in `shared` by its place there.

    What is a run's alone are its `facts`, whose labels are in `labels` at the run's place there.
    """
    shared = _Shared()
    most = _points(runs) if len(runs) <= DRAWN_RUNS else 0
    pages = [_page(run, shared, most) for run in runs]
    return {"runs": pages, "shared": list(shared.sections), "labels": list(shared.labels)}


class _Shared:
    """What runs share, by its place: sections, each title and facts, and labels of facts."""

    def __init__(self) -> None:
        self.sections: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self.labels: dict[tuple[str, ...], int] = {}
        self._places: dict[Hashable, int] = {}

    def place_labels(self, facts: Facts) -> int:
        """Where the labels of facts are."""
        return self.labels.setdefault(tuple([label for label, _ in facts]), len(self.labels))

    def place(
        self, title: str, made_of: Hashable, facts: Callable[[Record], Facts], record: Record
    ) -> int:
        """Where a record's section is. What it is made of is compared: quicker than to make it."""
        if (title, made_of) not in self._places:
            section = title, tuple(fact for fact in facts(record) if fact[1])
            self._places[title, made_of] = self.sections.setdefault(section, len(self.sections))
        return self._places[title, made_of]


def _points(runs: Sequence[ReportedRun]) -> int:
    """As many of each curve as there is room for."""
    series = [3 + len(r.record.curve[0].metrics) for r in runs if r.record and r.record.curve]
    return min(MOST, NUMBERS // max(sum(series), 1))


def _page(run: ReportedRun, shared: _Shared, most: int) -> dict[str, Any]:
    record, facts = run.record, _facts(run)
    page: dict[str, Any] = {
        "key": run.key,
        "entry": run.title,
        "dataset": run.dataset,
        "seed": run.seed,
        "state": run.state,
        "why": _why(run),
        "labels": shared.place_labels(facts),
        "facts": [text for _, text in facts],
        "shared": _sections(record, shared) if record else [],
    }
    if run.earlier:
        page["earlier"] = [_attempt(attempt) for attempt in run.earlier]
    if record and most > 1 and len(record.curve) > 1:
        page["curve"] = _curve(record.curve, most)
    return page


def _why(run: ReportedRun) -> str:
    if run.record and run.record.failure:
        failure = run.record.failure
        return f"{failure.kind}: {failure.message}"
    return "" if run.state == "done" else run.reason


def _facts(run: ReportedRun) -> Facts:
    """What is this run's alone."""
    record = run.record
    facts: Facts = [("Folder", run.folder or ""), ("Log", f"{run.folder}/log.txt")]
    if record is None:
        return facts if run.folder else []
    if record.failure:
        facts[1] = ("Log", record.failure.log)
    facts = [
        *((f"Test {name.replace('_', ' ')}", _number(x)) for name, x in record.metrics.items()),
        ("Attempt", str(record.attempt)),
        ("Time", f"{record.started} to {record.ended}"),
        *facts,
    ]
    if record.predictions:
        facts.append(("Predictions", f"predictions.npz, SHA-256 {record.predictions[:16]}…"))
    if record.probabilities:
        digest = record.probabilities[:16]
        facts.append(("Class probabilities", f"probabilities.npz, SHA-256 {digest}…"))
    if record.too_many_probabilities:
        facts.append(("Not all kept", record.too_many_probabilities))
    if cost := record.cost:
        facts += [
            ("Training", f"{cost.train_s:.4g} s"),
            ("Whole run", f"{cost.total_s:.4g} s, {numbers.device_time(cost.device_h)}"),
            ("Training speed", f"{cost.train_examples_per_s:,.0f} examples/s"),
            ("Peak memory", f"{cost.peak_memory_bytes / 1e6:,.0f} MB"),
        ]
    return facts


def _sections(record: Record, shared: _Shared) -> list[int]:
    """What other runs are likely to share."""
    spec, cost = record.spec, record.cost
    size = (cost.parameters, cost.trainable_parameters) if cost else None
    model = (spec.model.name, repr(spec.model.args), size)
    seen = (_values(spec.data), _values(record.data) if record.data else None, record.scored)
    made = record.provenance
    software = (made.environment, made.git_revision, made.git_dirty, made.bench_version)
    where = (made.device, made.device_kind, made.devices, made.threads)
    provenance = (tuple(made.command), tuple(made.sources.items()), software, where)
    return [
        shared.place("Model", model, _model, record),
        shared.place("Recipe", _values(spec.recipe), _recipe, record),
        shared.place("Data", seen, _data, record),
        shared.place("Provenance", provenance, _provenance, record),
    ]


def _values(model: BaseModel) -> tuple[Hashable, ...]:
    """What is in a model without lists."""
    return tuple([repr(v) if type(v) is dict else v for v in vars(model).values()])


def _model(record: Record) -> Facts:
    model, cost = record.spec.model, record.cost
    found: Facts = [("Name", model.name)]
    found += [(name, _plain(value)) for name, value in model.args.items()]
    if cost:
        size = f"{cost.parameters:,} ({cost.trainable_parameters:,} trained)"
        found.append(("parameters", size))
    return found


def _recipe(record: Record) -> Facts:
    found = record.spec.recipe.model_dump(mode="json")
    return [(name.replace("_", " "), _plain(value)) for name, value in found.items()]


def _data(record: Record) -> Facts:
    settings = record.spec.data.model_dump(mode="json", exclude_defaults=True)
    found = [(name, _plain(value)) for name, value in settings.items()]
    if seen := record.data:
        found += [
            ("examples", f"{seen.train:,} training, {seen.val:,} validation, {seen.test:,} test"),
            ("scored", f"{record.scored:,} test examples"),
            ("fingerprint", seen.fingerprint[:16]),
        ]
    return found


def _provenance(record: Record) -> Facts:
    made = record.provenance
    return [
        ("Command", " ".join(map(_portable, made.command))),
        ("bench", made.bench_version),
        ("Revision", (made.git_revision or "") + " with changes" * bool(made.git_dirty)),
        ("Device", f"{made.devices} × {made.device_kind or made.device}"),
        ("Threads", str(made.threads)),
        ("Environment", made.environment or ""),
        ("Sources", ", ".join(f"{path} {mark[:8]}" for path, mark in made.sources.items())),
    ]


def _portable(word: str) -> str:
    """A word of a command line without the folders of the machine it ran on."""
    return Path(word).name if word.startswith("/") else word


def _attempt(attempt: Attempt) -> list[str]:
    took = numbers.device_time(attempt.device_h)
    return [str(attempt.number), attempt.end, attempt.cause, took, attempt.log]


def _curve(curve: Sequence[Epoch], most: int) -> dict[str, list[float | None]]:
    """Epochs and the series over them, thinned to so many points."""
    kept = numbers.thinned(curve, most)
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
