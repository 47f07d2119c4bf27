"""Specs, records, attempts and study pages made up for tests, each of which says what it needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lightning_bench.bench.spec import DataSpec, ModelSpec, Recipe, RunSpec
from lightning_bench.bench.store.record import (
    Cost,
    DataFacts,
    Environment,
    Epoch,
    Failure,
    Provenance,
    Record,
)
from lightning_bench.bench.store.store import Attempt

COST = Cost(
    parameters=61_706,
    trainable_parameters=61_706,
    train_s=2.5,
    total_s=3.0,
    device_h=3.0 / 3600,
    train_examples_per_s=5_000.0,
    peak_memory_bytes=400_000_000,
)
DATA = DataFacts(fingerprint="f" * 64, train=1_257, val=180, test=360)
SOURCES = {"models/mlp.py": "0" * 12}
ENVIRONMENT = Environment(
    python="3.11.7",
    platform="Linux x86_64",
    cpu="A CPU",
    cores=2,
    memory_bytes=8_000_000_000,
    packages={"torch": "2.15.0", "numpy": "2.4.6"},
)
PROVENANCE = Provenance(
    environment="e" * 64,
    sources=SOURCES,
    command=["bench", "run", "quickstart"],
    bench_version="0.1.0",
    git_revision="a" * 40,
    git_dirty=False,
    host="here",
    device="cpu",
    devices=1,
    threads=1,
)


def spec(
    model: str = "mlp",
    data: str | Mapping[str, Any] = "digits",
    args: Mapping[str, Any] | None = None,
    recipe: Mapping[str, Any] | None = None,
    **changes: Any,
) -> RunSpec:
    """A run's spec; `changes` are of its other fields, as `seed=1`."""
    return RunSpec(
        model=ModelSpec(name=model, args=dict(args or {})),
        data=DataSpec(name=data) if isinstance(data, str) else DataSpec(**data),
        recipe=Recipe(**(recipe or {})),
        **changes,
    )


SPEC = spec()


def curve(metrics: Mapping[str, float], epochs: int = 8) -> list[Epoch]:
    """A learning curve that approaches these metrics."""
    return [
        Epoch(
            epoch=epoch,
            step=epoch * 20,
            train_loss=1 / epoch,
            val_loss=1 / epoch,
            metrics={name: value * (1 - 0.6 * 0.6**epoch) for name, value in metrics.items()},
        )
        for epoch in range(1, epochs + 1)
    ]


def record(
    of: RunSpec = SPEC, attempt: int = 1, failure: Failure | None = None, **changes: Any
) -> Record:
    """The record of a run that is done, or failed where a failure is given."""
    values: dict[str, Any] = {
        "key": of.key,
        "attempt": attempt,
        "status": "failed" if failure else "done",
        "spec": of,
        "started": "2026-01-01T00:00:00Z",
        "ended": "2026-01-01T00:00:03Z",
        "metrics": {} if failure else {"accuracy": 0.5},
        "scored": DATA.test,
        "cost": COST,
        "data": DATA,
        "provenance": PROVENANCE,
        "failure": failure,
    }
    return Record(**(values | changes))


def with_provenance(good: Record, **changes: Any) -> Record:
    """A record with another provenance."""
    return good.model_copy(update={"provenance": good.provenance.model_copy(update=changes)})


def failure(kind: str = "code", message: str = "it broke", log: str = "l") -> Failure:
    """Why a run failed."""
    return Failure.model_validate({"kind": kind, "message": message, "log": log})


def recorded(made: Record, **changes: Any) -> Attempt:
    """The attempt that left a record."""
    return Attempt(made.key, made.attempt, Path("f"), "recorded", made, **changes)


def study_page(**changes: Any) -> str:
    """The text of a study page: two entries on digits, a seed, and the smoke scale."""
    page = {
        "title": "t",
        "question": "q",
        "data": ["digits"],
        "entries": {"A": {"model": "mlp"}, "B": {"model": "lenet"}},
        "seeds": 1,
        **changes,
        "scales": changes.get("scales", {"smoke": {}}),
    }
    return yaml.safe_dump(page, sort_keys=False)
