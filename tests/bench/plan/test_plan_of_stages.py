"""What becomes of a run whose start was run again, failed, or left no weights."""

from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.execute.run_queue import RunQueue
from lightning_bench.bench.plan import plan as plans
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Start
from lightning_bench.bench.store.store import Attempt
from lightning_bench.bench.study.load import load
from tests.factory import SOURCES, failure, record, recorded, study_page


def staged_page(recipe: Any = None, seeds: int = 2, **b: Any) -> str:
    """An entry that starts from the second of two stages, and one that starts afresh."""
    common = {"data": "digits", "recipe": recipe} if recipe else {"data": "digits"}
    return study_page(
        stages={"first": {**common, "model": "mlp"}, "second": {**common, "start": "first"}},
        entries={"A": {"model": "mlp", "start": "second"}, "B": {"model": "mlp", **b}},
        seeds=seeds,
    )


FAILED, LOST = failure("code"), failure("infrastructure")


def attempt(
    spec: RunSpec, number: int = 1, weights: str | None = None, start: str = "", **changes: Any
) -> Attempt:
    problem = changes.pop("problem", "" if weights is not None else "gone")
    if start and spec.start is not None:
        changes["start"] = Start(
            key=spec.start.key, attempt=1, weights_sha256=start, taken=1, fresh=0
        )
    return recorded(record(spec, number, weights=weights, **changes), weights=lambda: problem)


@pytest.fixture
def study(page):
    return load(page(staged_page({"epochs": 1}, args={"width": 8})))


def planned(study, *attempts: Attempt, sources=lambda spec: SOURCES) -> plans.Plan:
    by_key = {found.key: found for found in attempts}
    return plans.make(study, study.runs(), by_key, sources, before=study.before())


def states(plan: plans.Plan) -> dict[str, str]:
    return {f"{p.run.entry} {p.run.spec.seed}": p.state for p in plan.all}


@pytest.fixture
def specs(study) -> list[RunSpec]:
    """The first stage, the second, and A's two runs."""
    runs = [run for run in study.runs() if run.entry == "A"]
    return [run.spec for run in (*study.before(), *runs)]


def done(specs: list[RunSpec], **changes: Any) -> list[Attempt]:
    first, second, one, other = specs
    return [
        attempt(first, weights="f"),
        attempt(second, weights="s", start="f", **changes),
        attempt(one, start="s"),
        attempt(other, start="s"),
    ]


def test_starts_are_listed_and_run_first(study) -> None:
    plan = planned(study)
    assert [p.run.entry for p in plan.to_run()] == ["first", "second (A)", "A", "B", "A", "B"]
    assert [p.keep_weights for p in plan.all] == [True, True, False, False, False, False]
    assert [p.run.entry for p in plan.runs] == ["A", "B", "A", "B"]  # those of the tables
    assert plan.counts()["missing"] == 6


def test_all_done_is_all_done(study, specs) -> None:
    plan = planned(study, *done(specs))
    assert [p.run.entry for p in plan.to_run()] == ["B", "B"]


def test_weights_that_are_gone_are_missed_only_by_who_needs_them(study, specs) -> None:
    first, second, one, other = done(specs)
    gone = [Attempt(a.key, 1, Path("f"), "recorded", a.record) for a in (first, second)]
    assert states(planned(study, *gone, one, other)) == states(
        planned(study, first, second, one, other)
    )
    plan = planned(study, *gone, one)
    assert [p.state for p in plan.before] == ["missing", "missing"]
    assert "done, but its weights are gone, and 1 run starts from them" in plan.before[1].reason
    assert states(plan)["A 0"] == "done"  # the same weights will come out again


def test_damaged_weights_are_made_again_for_who_needs_them(study, specs) -> None:
    first, second, one, other = done(specs, problem="damaged")
    assert "missing" not in {p.state for p in planned(study, first, second, one, other).before}
    plan = planned(study, first, second, one)
    assert plan.before[1].reason == "done, but its weights are damaged, and 1 run starts from them"


def test_a_start_that_is_to_be_run_again_makes_stale_what_came_of_it(study, specs) -> None:
    def newer(spec: RunSpec) -> dict[str, str]:
        return SOURCES if spec.start is not None else {"models/mlp.py": "1"}

    plan = planned(study, *done(specs), sources=newer)
    found = {p.run.entry: p for p in plan.all}
    assert found["first"].reason == "models/mlp.py changed since"
    assert found["second (A)"].reason == "it started from first, which is to be run again"
    assert found["A"].reason == "it started from second (A), which is to be run again"
    assert found["A"].state == "stale"


def test_other_weights_make_stale_and_equal_ones_do_not(study, specs) -> None:
    first, _second, one, other = done(specs)
    again = attempt(specs[1], 2, weights="new", start="f")
    plan = planned(study, first, again, one, other)
    assert states(plan)["A 0"] == states(plan)["A 1"] == "stale"
    assert plan.runs[0].reason == (
        "it started from second (A) of attempt 1, attempt 2 has other weights"
    )
    equal = attempt(specs[1], 2, weights="s", start="f")
    assert states(planned(study, first, equal, one, other))["A 0"] == "done"


def test_what_can_not_start_is_failed_with_the_cause(study, specs) -> None:
    broken = attempt(specs[0], failure=FAILED)
    plan = planned(study, broken)
    found = {p.run.entry: p for p in plan.all}
    assert found["second (A)"].state == found["A"].state == "failed"
    assert found["second (A)"].reason == "can't start: first failed (code: it broke)"
    assert [p.run.entry for p in plan.to_run()] == ["B", "B"]
    again = plan.to_run(retry_failed=True)
    assert [p.run.entry for p in again] == ["first", "second (A)", "A", "B", "A", "B"]


def test_a_lost_start_is_tried_again_with_what_waits_for_it(study, specs) -> None:
    plan = planned(study, attempt(specs[0], failure=LOST))
    assert [p.run.entry for p in plan.to_run()] == ["first", "second (A)", "A", "B", "A", "B"]


def test_a_run_that_is_a_start_and_an_entry_is_run_once(page) -> None:
    same = load(page(staged_page(seeds=1)))
    plan = planned(same)
    assert [p.run.entry for p in plan.to_run()] == ["first", "second (A)", "A"]
    assert [p.run.entry for p in plan.runs] == ["A", "B"]


def test_work_waits_for_its_start(study) -> None:
    plan = planned(study)
    work = RunQueue(plan.to_run())
    first = work.take()
    assert first is not None
    assert first.run.entry == "first"
    beside = [work.take(), work.take()]
    assert [p and p.run.entry for p in beside] == ["B", "B"]
    assert work.take() is None
    assert work.open
    work.finished(first, record(first.run.spec))
    second = work.take()
    assert second is not None
    assert second.run.entry == "second (A)"
    assert work.take() is None
    work.finished(second, record(second.run.spec))
    assert [p and p.run.entry for p in (work.take(), work.take())] == ["A", "A"]
    assert not work.open


def test_work_waits_for_a_start_that_another_process_runs(study) -> None:
    plan = planned(study)
    first, *rest = plan.to_run()
    work = RunQueue([p for p in rest if p.run.entry != "B"], running=[first])
    assert work.take() is None
    work.finished(first, record(first.run.spec))
    assert work.take() is not None


def test_what_starts_from_a_failure_is_not_handed_out(study) -> None:
    plan = planned(study)
    work = RunQueue(p for p in plan.to_run() if p.run.entry != "B")
    first = work.take()
    assert first is not None
    work.finished(first, record(first.run.spec, failure=FAILED))
    assert work.take() is None
    assert not work.open
