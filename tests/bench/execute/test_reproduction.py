"""Reproductions: the verdict, and what differs around it."""

from typing import Any

import pytest

from lightning_bench.bench.execute.job import Execution
from lightning_bench.bench.execute.reproduction import compare, execution_of
from lightning_bench.bench.store.record import DataFacts, Environment, Epoch
from tests.factory import record

BEFORE = record(
    metrics={"accuracy": 0.5, "loss": 1.0},
    predictions="p",
    curve=[Epoch(epoch=1, step=1, train_loss=1.0)],
    data=DataFacts(fingerprint="f" * 64, train=1, val=1, test=1),
)


@pytest.mark.parametrize(
    ("change", "verdict", "moved"),
    [
        ({}, "equal bit for bit", []),
        ({"metrics": {"accuracy": 0.5, "loss": 1.0 + 1e-8}}, "equal within tolerance", ["loss"]),
        ({"predictions": "q"}, "equal within tolerance", []),
        ({"curve": []}, "equal within tolerance", []),
        ({"metrics": {"accuracy": 0.6, "loss": 1.0}}, "different", ["accuracy"]),
        ({"metrics": {"accuracy": 0.5}}, "different", ["loss"]),
    ],
)
def test_verdicts(change: dict[str, Any], verdict: str, moved: list[str]) -> None:
    found = compare(BEFORE, BEFORE.model_copy(update=change), {})
    assert found.verdict == verdict
    assert list(found.moved) == moved
    assert found.circumstances == []


def test_circumstances_are_named() -> None:
    old = Environment(
        python="3.11", platform="p", cpu="c", cores=2, memory_bytes=1, packages={"torch": "2.14"}
    )
    new = old.model_copy(update={"cores": 4, "packages": {"torch": "2.15", "x": "1"}})
    made = BEFORE.provenance
    before = BEFORE.model_copy(update={"provenance": made.model_copy(update={"environment": "1"})})
    changes = {
        "environment": "2",
        "threads": 8,
        "strategy": "fsdp",
        "compiled": True,
        "sources": {"models/mlp.py": "other"},
    }
    after = BEFORE.model_copy(
        update={
            "provenance": made.model_copy(update=changes),
            "data": BEFORE.data.model_copy(update={"fingerprint": "g" * 64}),
        }
    )
    found = compare(before, after, {"1": old, "2": new}).circumstances
    assert found == [
        "threads: 1 → 8",
        "strategy: None → fsdp",
        "compiled: False → True",
        "sources: models/mlp.py",
        "data: fingerprint ffffffffffff → gggggggggggg",
        "cores: 2 → 4",
        "package torch: 2.14 → 2.15",
        "package x: none → 1",
    ]
    unknown = compare(before, after, {}).circumstances
    assert "environment: that of the first run is not in the store" in unknown


def test_it_is_executed_as_the_record_was() -> None:
    made = BEFORE.provenance.model_copy(
        update={"devices": 2, "threads": 3, "strategy": "fsdp", "compiled": True}
    )
    assert execution_of(made) == Execution("cpu", 2, 3, "fsdp", compile=True)
    assert execution_of(BEFORE.provenance).strategy == "ddp"
