"""Plans: each state with its reason in words, and the time that is left."""

from pathlib import Path
from typing import Literal

import pytest

from lightning_bench.bench.plan import plan as plans
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Attempt
from lightning_bench.bench.study.load import load
from tests.factory import (
    COST,
    SOURCES,
    SPEC,
    failure,
    record,
    recorded,
    study_page,
    with_provenance,
)


def attempt(
    state: Literal["recorded", "damaged", "running", "interrupted"] = "recorded",
    made: Record | None = None,
    problem: str = "",
) -> Attempt:
    return Attempt(SPEC.key, 2, Path("f"), state, made, problem)


def failed(kind: str) -> Attempt:
    return attempt(made=record(failure=failure(kind)))


def recorded_by_0_1() -> Record:
    sources = {"bench/training.py": "1", "bench/standing.py": "2", "models/mlp.py": "3"}
    return with_provenance(record(), sources=sources)


@pytest.mark.parametrize(
    ("found", "sources", "state", "reason"),
    [
        (None, SOURCES, "missing", "never run"),
        (attempt(made=record()), SOURCES, "done", "2026-01-01 00:00 UTC"),
        (attempt("running"), SOURCES, "running", "attempt 2 is running now"),
        (attempt("interrupted"), SOURCES, "missing", "attempt 2 was interrupted"),
        (
            attempt("damaged", problem="cut short"),
            SOURCES,
            "missing",
            "the record of attempt 2 is damaged: cut short",
        ),
        (failed("code"), SOURCES, "failed", "code: it broke"),
        (failed("divergence"), SOURCES, "failed", "divergence: it broke"),
        (failed("infrastructure"), SOURCES, "failed", "lost in attempt 2: it broke"),
        (attempt(made=record()), {"models/mlp.py": "1"}, "stale", "models/mlp.py changed since"),
        (attempt(made=record()), {}, "stale", "models/mlp.py changed since"),
        (
            attempt(made=record()),
            SOURCES | {"a.py": "1", "b.py": "2"},
            "stale",
            "a.py, b.py changed since",
        ),
        (
            attempt(made=recorded_by_0_1()),
            SOURCES,
            "stale",
            "made by version 0.1, before the code was rearranged",
        ),
        # What failed may have been mended.
        (failed("code"), {"models/mlp.py": "1"}, "stale", "models/mlp.py changed since"),
    ],
)
def test_states_and_reasons(
    found: Attempt | None, sources: dict[str, str], state: str, reason: str
) -> None:
    assert plans.judge(found, sources) == (state, reason)


WIDE, NARROW = ({"model": "mlp", "args": {"width": width}} for width in (16, 8))
PAGE = study_page(entries={"A": WIDE, "B": NARROW, "again A": WIDE}, seeds=3, run_s=7)


def test_entries_with_equal_specs_share_a_run(page) -> None:
    study = load(page(PAGE))
    plan = plans.make(study, study.runs(), {}, lambda _: SOURCES)
    assert len(plan.runs) == 9
    assert [(p.run.entry, p.run.spec.seed) for p in plan.to_run()] == [
        (entry, seed) for seed in range(3) for entry in "AB"
    ]
    assert plan.counts() == {"done": 0, "missing": 9, "stale": 0, "failed": 0, "running": 0}


def test_expected_times_come_from_what_was_measured(page) -> None:
    study = load(page(PAGE))
    runs = study.runs()
    assert {p.expected_s for p in plans.make(study, runs, {}, lambda _: SOURCES).runs} == {7}
    first = runs[0].spec
    plan = plans.make(study, runs, {first.key: recorded(record(first))}, lambda _: SOURCES)
    # A's own time for A; for B, of which nothing is known, the median of all.
    assert {p.expected_s for p in plan.runs} == {COST.total_s}
    assert plan.counts()["done"] == 2  # A and again A
    assert first.key not in {p.key for p in plan.to_run()}


def test_a_gpus_runs_are_not_expected_to_take_what_a_cpus_took(page) -> None:
    study = load(page(PAGE))
    runs = study.runs()
    on_cpu = record(runs[0].spec, cost=COST.model_copy(update={"total_s": 900.0}))
    gpu = {"device": "cuda", "device_kind": "NVIDIA T4"}
    on_gpu = record(
        runs[1].spec,
        ended="2026-01-02T00:00:00Z",
        provenance=on_cpu.provenance.model_copy(update=gpu),
    )
    attempts = {made.key: recorded(made) for made in (on_cpu, on_gpu)}
    plan = plans.make(study, runs, attempts, lambda _: SOURCES)
    assert {p.expected_s for p in plan.runs} == {COST.total_s}
    # Asked for others, it knows those alone, or nothing.
    for device, devices, seconds in (("cpu", 1, 900.0), ("cuda", 1, COST.total_s), ("cpu", 2, 7)):
        expected = plans.expecting(plan, device, devices)
        assert {p.expected_s for p in expected.runs} == {seconds}


@pytest.mark.parametrize("kind", ["code", "infrastructure"])
def test_failed_runs_are_repeated_on_demand_and_lost_ones_always(page, kind: str) -> None:
    study = load(page(PAGE))
    runs = study.runs()
    key = runs[0].key
    lost = recorded(record(runs[0].spec, 4, failure(kind)))
    plan = plans.make(study, runs, {key: lost}, lambda _: SOURCES)
    assert (key in {p.key for p in plan.to_run()}) == (kind == "infrastructure")
    again = next(p for p in plan.to_run(retry_failed=True) if p.key == key)
    assert again.next_attempt == 5
