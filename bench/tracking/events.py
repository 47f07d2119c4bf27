"""Events for trackers: a run began, finished an epoch, left its record; a report was made."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lightning_bench.bench.plan.plan import Plan, PlannedRun
from lightning_bench.bench.store.record import Epoch, Record
from lightning_bench.bench.study.study import Study


@dataclass(frozen=True)
class Began:
    """A run is about to train."""

    key: str
    name: str
    tags: tuple[str, ...]
    config: dict[str, Any]


@dataclass(frozen=True)
class Progressed:
    """A run finished an epoch."""

    key: str
    epoch: Epoch


@dataclass(frozen=True)
class Finished:
    """A run left its record."""

    key: str
    record: Record


@dataclass(frozen=True)
class Reported:
    """The study's report lies in a folder."""

    folder: Path


Event = Began | Progressed | Finished | Reported


class Tracker(Protocol):
    """One destination. It may be slow or fail: nothing waits for it."""

    def take(self, event: Event) -> None:
        """Show an event."""

    def close(self) -> str:
        """Finish whatever is open, and say in a line where to look; empty if nowhere."""


def began(planned: PlannedRun, study: Study) -> Began:
    """The event of a run's start."""
    run = planned.run
    # A run that others start from is no entry, and has no group.
    group = study.entries[run.entry].group if run.entry in study.entries else ""
    labels = {"entry": run.entry, "group": group, "study": study.name, "scale": study.scale}
    return Began(
        key=planned.key,
        name=f"{run.title} · {run.dataset} · seed {run.spec.seed}",
        tags=tuple(tag for tag in (study.scale, run.dataset, run.entry, group) if tag),
        config={**labels, "key": planned.key, **run.spec.model_dump(mode="json")},
    )


def replay(plan: Plan) -> Iterator[Event]:
    """All that the store knows of a study, as if it happened now."""
    seen: set[str] = set()
    for planned in plan.all:
        record = planned.record
        if record is None or planned.key in seen:
            continue
        seen.add(planned.key)
        yield began(planned, plan.study)
        for epoch in record.curve:
            yield Progressed(planned.key, epoch)
        yield Finished(planned.key, record)


def curve_values(epoch: Epoch) -> dict[str, float]:
    """An epoch's numbers under the names that every tracker uses."""
    values = {"train/loss": epoch.train_loss}
    if epoch.val_loss is not None:
        values["val/loss"] = epoch.val_loss
    return values | {f"val/{name}": value for name, value in epoch.metrics.items()}


def final_values(record: Record) -> dict[str, float]:
    """A record's test metrics and cost under the names that every tracker uses."""
    values = {f"test/{name}": value for name, value in record.metrics.items()}
    if record.cost:
        values |= {f"cost/{name}": value for name, value in record.cost.model_dump().items()}
    return values
