"""Plans: each state with its reason in words, and the time that is left."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from lightning_bench.bench.plan import plan as plans
from lightning_bench.bench.plan.estimate import Estimate, Unknown
from lightning_bench.bench.plan.expected_times import Expected
from lightning_bench.bench.spec import RunSpec
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
PAGE = study_page(entries={"A": WIDE, "B": NARROW, "again A": WIDE}, seeds=3)


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
    unknown = plans.make(study, runs, {}, lambda _: SOURCES).runs
    assert {(p.expected_s, p.expected.basis) for p in unknown} == {(0, "unknown")}
    first = runs[0].spec
    plan = plans.make(study, runs, {first.key: recorded(record(first))}, lambda _: SOURCES)
    # A's own time for A; for B, of which nothing is known, the median of all.
    assert {p.expected_s for p in plan.runs} == {COST.total_s}
    assert plan.counts()["done"] == 2  # A and again A
    assert first.key not in {p.key for p in plan.to_run()}


def test_a_run_like_which_there_was_none_is_estimated_and_never_one_that_was(page) -> None:
    study = load(page(PAGE))
    runs = study.runs()
    first = runs[0].spec
    asked: list[RunSpec] = []

    def counted(specs: Sequence[RunSpec]) -> list[Estimate | Unknown]:
        asked.extend(specs)
        return [Estimate(5.0, 1e9, 2e9)] * len(specs)

    known = {first.key: recorded(record(first))}
    plan = plans.make(study, runs, known, lambda _: SOURCES, estimates=counted)
    by_entry = {p.run.entry: (p.expected_s, p.expected.basis) for p in plan.runs}
    again = (COST.total_s, "earlier runs")  # it has A's runs
    assert by_entry == {"A": again, "B": (5.0, "counted"), "again A": again}
    assert [spec.model.args for spec in asked] == [NARROW["args"]]
    elsewhere = plans.make(study, runs, known, lambda _: SOURCES, estimates=counted, elsewhere=True)
    assert {p.expected_s for p in elsewhere.runs} == {5.0}


def test_what_can_t_be_estimated_takes_what_the_others_take(page) -> None:
    study = load(page(PAGE))
    why = Unknown("nobody knows")
    plan = plans.make(
        study, study.runs(), {}, lambda _: SOURCES,
        estimates=lambda specs: [why, *[Estimate(4.0, 1e9, 2e9)] * (len(specs) - 1)],
    )  # fmt: skip
    expected = {p.run.entry: p.expected for p in plan.runs}
    assert expected["A"] == Expected(4.0, "other runs", why)
    assert expected["B"].basis == "counted"


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
    for device, devices, seconds in (("cpu", 1, 900.0), ("cuda", 1, COST.total_s), ("cpu", 2, 0)):
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


def test_runs_without_probabilities_are_done_and_run_again_on_demand_alone(page) -> None:
    study = load(page(study_page(entries={"A": WIDE, "B": NARROW}, seeds=2)))
    runs = study.runs()
    kept = [record(run.spec, probabilities="d" * 64) for run in runs[:2]]
    labels = record(runs[2].spec)
    many = record(runs[3].spec, too_many_probabilities="10,450 classes")
    attempts = {made.key: recorded(made) for made in (*kept, labels, many)}
    plan = plans.make(study, runs, attempts, lambda _: SOURCES)
    assert plan.to_run() == []
    again = plans.adding_probabilities(plan)
    assert [p.key for p in again.to_run()] == [runs[2].key]
    assert again.runs[2].reason == "done, but no class probabilities were kept"
    assert again.to_run()[0].next_attempt == labels.attempt + 1


def test_the_plan_knows_what_class_probabilities_will_take(page) -> None:
    text = study_page(data=["digits", "polarity"], entries={"A": WIDE, "T": {"model": "bag"}})
    study = load(page(text))
    runs = study.runs()
    plan = plans.make(study, runs, {}, lambda _: SOURCES)
    assert plans.probability_bytes(plan) == 2 * (359 * 10 + 1000 * 2)
    attempts = {runs[0].key: recorded(record(runs[0].spec))}
    rest = plans.make(study, runs, attempts, lambda _: SOURCES)
    assert plans.probability_bytes(rest) == 2 * 1000 * 2
    labels = study.model_copy(update={"predictions": "labels"})
    assert plans.probability_bytes(plans.make(labels, runs, {}, lambda _: SOURCES)) == 0


def test_more_probabilities_than_are_kept_are_not_counted(page) -> None:
    text = study_page(data=[{"name": "imagenet21k"}], entries={"A": {"model": "mlp"}})
    study = load(page(text))
    plan = plans.make(study, study.runs(), {}, lambda _: SOURCES)
    assert plans.probability_bytes(plan) == 0
