"""Rules: a good study keeps them all, and each breach is found by its own rule."""

from pathlib import Path
from typing import Any

import pytest

from bench import check, plan
from bench.record import DataFacts, Epoch, Failure, Record
from bench.store import Attempt
from bench.study import load
from tests.bench.factory import COST, record

PAGE = """\
title: t
question: q
data: [digits]
entries: {A: {model: mlp}, B: {model: lenet}}
seeds: 3
scales: {smoke: {}}
"""
SOURCES = {"models/mlp.py": "0" * 12}


def made(page: Any, change: Any = None) -> plan.Plan:
    """A finished study, one run of which (B, seed 2) may be changed."""
    study = load(page(PAGE))
    runs = study.runs()
    attempts = {}
    for run in runs:
        good = record(
            run.spec,
            scored=5,
            cost=COST,
            data=DataFacts(fingerprint="f", train=9, val=5, test=5),
            curve=[Epoch(epoch=1, step=10, train_loss=1.0)],
        )
        if change and run is runs[-1]:
            good = change(good)
        attempts[run.key] = Attempt(run.key, 1, Path("f"), "recorded", good)
    return plan.make(study, runs, attempts, lambda _: SOURCES)


def broken(found: plan.Plan) -> dict[str, list[str]]:
    return {rule.name: breaches for rule, breaches in check.check(found) if breaches}


def test_a_good_study_keeps_every_rule(page) -> None:
    assert broken(made(page)) == {}


def provenance(**changes: Any) -> Any:
    return lambda good: good.model_copy(
        update={"provenance": good.provenance.model_copy(update=changes)}
    )


def changed(**changes: Any) -> Any:
    return lambda good: good.model_copy(update=changes)


BREACHES = [
    (changed(schema_version=0), {"schema"}, "schema 0, not 1"),
    (changed(scored=4), {"counts"}, "scored 4 of 5"),
    (changed(metrics={"accuracy": float("nan")}), {"numbers"}, "accuracy is nan"),
    (
        changed(data=DataFacts(fingerprint="g", train=9, val=5, test=5)),
        {"fingerprints"},
        "not the same data",
    ),
    (
        changed(curve=[Epoch(epoch=1, step=20, train_loss=1.0)]),
        {"budgets"},
        "different lengths",
    ),
    (provenance(threads=2), {"hardware"}, "1 × cpu, 2 threads"),
    (provenance(environment="e"), {"hardware"}, "2 different environments"),
    (provenance(git_revision="r"), {"revisions"}, "2 revisions"),
    (provenance(git_dirty=True), {"revisions"}, "uncommitted"),
    (provenance(sources={}), {"done", "seeds"}, "is stale"),
    (
        changed(status="failed", failure=Failure(kind="code", message="m", log="l")),
        {"done", "seeds"},
        "is failed",
    ),
]


@pytest.mark.parametrize(("change", "rules", "says"), BREACHES)
def test_each_breach_is_found_by_its_rule(page, change: Any, rules: set[str], says: str) -> None:
    found = broken(made(page, change))
    assert found.keys() >= rules
    assert found.keys() <= rules | {"revisions"}
    assert any(says in breach for breaches in found.values() for breach in breaches)


def test_every_rule_can_be_broken() -> None:
    assert {rule.name for rule in check.RULES} == set().union(*(rules for _, rules, _ in BREACHES))


def test_the_record_type_is_the_one_of_the_store() -> None:
    assert Record.model_fields["schema_version"].default == check.SCHEMA_VERSION
