"""A small factory of requests, records and runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from bench.record import Cost, DataFacts, Environment, Epoch, Failure, Provenance, Record
from bench.spec import DataSpec, ModelSpec, Recipe, RunSpec
from reports.table import Entry, Request, Run

ENVIRONMENT = Environment(
    python="3.11.7",
    platform="Linux x86_64",
    cpu="A CPU",
    cores=2,
    memory_bytes=8_000_000_000,
    packages={"torch": "2.15.0", "numpy": "2.4.6"},
)


def make_record(
    entry: str = "mlp",
    dataset: str = "digits",
    seed: int = 0,
    metrics: Mapping[str, float] | None = None,
    failure: Failure | None = None,
    **changes: Any,
) -> Record:
    """A record of a run that is done, or failed when it is given a failure."""
    spec = RunSpec(model=ModelSpec(name=entry), data=DataSpec(name=dataset), seed=seed)
    values: dict[str, Any] = {
        "key": spec.key,
        "attempt": 1,
        "status": "failed" if failure else "done",
        "spec": spec,
        "started": "2026-11-18T12:00:00Z",
        "ended": "2026-11-18T12:00:03Z",
        "metrics": dict(metrics or {}),
        "scored": 360,
        "curve": [
            Epoch(
                epoch=epoch,
                step=epoch * 20,
                train_loss=1 / epoch,
                val_loss=1 / epoch,
                metrics={name: value * (1 - 0.6 * 0.6**epoch) for name, value in metrics.items()},
            )
            for epoch in range(1, 9)
        ]
        if metrics
        else [],
        "cost": Cost(
            parameters=61_706,
            trainable_parameters=61_706,
            train_s=2.5,
            total_s=3.0,
            device_h=3.0 / 3600,
            train_examples_per_s=5_000.0,
            peak_memory_bytes=400_000_000,
        ),
        "data": DataFacts(fingerprint="f" * 64, train=1_257, val=180, test=360),
        "provenance": Provenance(
            environment="e" * 64,
            sources={},
            command=["bench", "run", "quickstart"],
            bench_version="0.1.0",
            git_revision="a" * 40,
            git_dirty=False,
            host="here",
            device="cpu",
            devices=1,
            threads=1,
        ),
        "failure": failure,
    }
    return Record(**(values | changes))


def make_run(entry: str, dataset: str, seed: int, value: float | None, **changes: Any) -> Run:
    """A finished run with this accuracy, or one of another state with none."""
    record = None if value is None else make_record(entry, dataset, seed, {"accuracy": value})
    spec = RunSpec(model=ModelSpec(name=entry), data=DataSpec(name=dataset), seed=seed)
    fields: dict[str, Any] = {
        "entry": entry,
        "dataset": dataset,
        "seed": seed,
        "key": spec.key,
        "state": "missing" if record is None else "done",
        "record": record,
        "folder": f"runs/{spec.key}",
    }
    return Run(**(fields | changes))


def make_request(
    entries: Sequence[str], datasets: Sequence[str] = ("digits",), **changes: Any
) -> Request:
    fields: dict[str, Any] = {
        "study": "quickstart",
        "scale": "smoke",
        "title": "Five small networks on handwritten digits",
        "question": "Which of five architectures of one size learns digits best?",
        "command": "bench run quickstart",
        "entries": [Entry(label=entry, model=entry) for entry in entries],
        "metrics": {dataset: ["accuracy"] for dataset in datasets},
        "recipe": Recipe(),
        "environments": {"e" * 64: ENVIRONMENT},
    }
    return Request(**(fields | changes))


Scores = Mapping[str, Sequence[float | None]]


def make_study(scores: Scores, dataset: str = "digits") -> tuple[Request, list[Run]]:
    """A request and its runs from accuracies by entry, one for each seed."""
    runs = [
        make_run(entry, dataset, seed, value)
        for entry, values in scores.items()
        for seed, value in enumerate(values)
    ]
    return make_request(list(scores), [dataset]), runs


def make_scores(
    means: Mapping[str, float], seeds: int, sd: float = 0.006, rng: int = 0
) -> dict[str, list[float]]:
    """Accuracies that are counts over 360 examples, with a seed effect that all entries share."""
    generator = np.random.default_rng(rng)
    shared = generator.normal(0, sd, seeds)
    return {
        entry: (
            np.round(360 * np.clip(mean + shared + generator.normal(0, sd, seeds), 0, 1)) / 360
        ).tolist()
        for entry, mean in means.items()
    }


QUICKSTART = {"MLP": 0.955, "LeNet": 0.975, "ResNet": 0.985, "ViT": 0.962, "MLP-Mixer": 0.966}


@pytest.fixture
def quickstart() -> Callable[[int], tuple[Request, list[Run]]]:
    """The quickstart study with as many seeds as asked for."""
    return lambda seeds: make_study(make_scores(QUICKSTART, seeds))
