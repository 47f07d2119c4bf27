"""The executor's decisions, with an engine that ends runs as it is told to."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.execute.executor import RETRIES, Executor, Listener, RunList
from lightning_bench.bench.execute.job import Execution, JobSpec
from lightning_bench.bench.execute.launcher import Ending, Job
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.store.rank_failures import write_failure
from lightning_bench.bench.store.record import Epoch, Record
from lightning_bench.bench.store.store import AttemptTaken, Store
from lightning_bench.bench.study.study import Run
from tests.factory import SPEC, failure, record, spec

#: What becomes of an attempt: it may claim its folder and write what it likes.
Fate = Callable[[Store, JobSpec], Ending]


@dataclass
class _Job:
    """One that is over as soon as it has begun, or when it is asked to stop."""

    ending: Ending | None
    state: str = ""
    asked: bool = False

    def ended(self) -> Ending | None:
        return Ending("stopped") if self.asked else self.ending

    def stop(self) -> None:
        self.asked = True

    def kill(self) -> None:
        self.asked = True


@dataclass
class Engine:
    store: Store
    fates: list[Fate | None]
    slots: int = 1
    outlives: bool = False
    orders: list[JobSpec] = field(default_factory=list)

    def start(self, order: JobSpec, slot: int) -> Job:
        self.orders.append(order)
        fate = self.fates.pop(0)
        return _Job(fate(self.store, order) if fate else None)

    def wait(self, jobs: Iterable[Job]) -> None:
        pass

    def close(self) -> None:
        pass


class Diary(Listener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.pages: list[tuple[str, Any]] = []

    def started(self, planned: PlannedRun, slot: int) -> None:
        self.pages.append(("started", slot))

    def progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        self.pages.append(("epoch", epoch.epoch))

    def finished(self, planned: PlannedRun, record: Record) -> None:
        self.pages.append(("finished", record.attempt))

    def lost(self, planned: PlannedRun, record: Record) -> None:
        self.pages.append(("lost", record.attempt))

    def stopped(self, planned: PlannedRun) -> None:
        self.pages.append(("stopped", None))

    def run_by_other(self, planned: PlannedRun) -> None:
        self.pages.append(("elsewhere", None))


def planned(seed: int = 0) -> PlannedRun:
    return PlannedRun(Run("A", "digits", spec(seed=seed)), "missing", "", 1.0, None, {})


def executor(tmp_path: Path, *fates: Fate | None, slots: int = 1) -> tuple[Executor, Engine, Diary]:
    store = Store(tmp_path)
    store.prepare()
    engine, diary = Engine(store, list(fates), slots), Diary()
    return Executor(store, engine, Execution(), [diary]), engine, diary


def epochs(folder: Path, *numbers: int) -> None:
    lines = [Epoch(epoch=n, step=n, train_loss=1.0).model_dump_json() + "\n" for n in numbers]
    (folder / "curve.jsonl").write_text("".join(lines), encoding="utf-8")


def finishes(store: Store, order: JobSpec) -> Ending:
    with store.claim(order.spec, order.attempt) as folder:
        epochs(folder, 1, 2, 3)
        store.write_record(folder, record(order.spec, order.attempt))
    return Ending("ended", "exited with code 0")


def dies(store: Store, order: JobSpec) -> Ending:
    with store.claim(order.spec, order.attempt) as folder:
        epochs(folder, 1, 2)
    return Ending("ended", "was killed by SIGKILL")


def dies_early(store: Store, order: JobSpec) -> Ending:
    return Ending("ended", "was killed by SIGSEGV")


def breaks(store: Store, order: JobSpec) -> Ending:
    cause = failure("code", "ValueError: no")
    with store.claim(order.spec, order.attempt) as folder:
        store.write_record(folder, record(order.spec, order.attempt, cause))
    return Ending("ended", "exited with code 0")


def runs_out_of_memory(store: Store, order: JobSpec) -> Ending:
    return Ending("out-of-memory", "was killed by SIGKILL, as the kernel ran out of memory")


def dies_after_another_rank_failed(store: Store, order: JobSpec) -> Ending:
    ending = dies(store, order)
    out_of_memory = failure("out-of-memory", "rank 1: OutOfMemoryError: CUDA out of memory.")
    write_failure(store.folder(order.spec.key, order.attempt), 1, out_of_memory)
    return ending


def is_stopped(store: Store, order: JobSpec) -> Ending:
    with store.claim(order.spec, order.attempt) as folder:
        epochs(folder, 1)
    return Ending("stopped")


def is_taken(store: Store, order: JobSpec) -> Ending:
    finishes(store, order)
    with pytest.raises(AttemptTaken), store.claim(order.spec, order.attempt):
        pass
    return Ending("taken")


def test_a_lost_run_is_tried_again_and_its_epochs_are_told_once(tmp_path: Path) -> None:
    run, engine, diary = executor(tmp_path, dies, finishes)
    run.run(RunList([planned()]))
    assert diary.pages == [
        ("started", 0), ("epoch", 1), ("epoch", 2), ("lost", 1),
        ("started", 0), ("epoch", 3), ("finished", 2),
    ]  # fmt: skip
    assert [order.attempt for order in engine.orders] == [1, 2]


@pytest.mark.parametrize("death", [dies, dies_early])
def test_it_is_tried_again_twice_and_then_left_with_the_reason(tmp_path: Path, death: Fate) -> None:
    run, engine, diary = executor(tmp_path, *[death] * (RETRIES + 1))
    run.run(RunList([planned()]))
    assert len(engine.orders) == RETRIES + 1
    assert diary.pages[-1] == ("finished", RETRIES + 1)
    attempt = Store(tmp_path).scan()[SPEC.key]
    assert attempt.record is not None
    assert attempt.record.failure is not None
    assert attempt.record.failure.kind == "infrastructure"
    assert "was killed by SIG" in attempt.record.failure.message


def test_losses_before_count_where_they_are_to(tmp_path: Path) -> None:
    run, engine, diary = executor(tmp_path, dies_early, dies_early)
    run.run(RunList([replace(planned(), losses=RETRIES - 1)]))
    assert len(engine.orders) == 2
    assert diary.pages[-1] == ("finished", 2)


@pytest.mark.parametrize(
    ("fate", "kind"),
    [
        (breaks, "code"),
        (runs_out_of_memory, "out-of-memory"),
        (dies_after_another_rank_failed, "out-of-memory"),
    ],
)
def test_what_is_the_run_s_own_fault_is_not(tmp_path: Path, fate: Fate, kind: str) -> None:
    run, engine, diary = executor(tmp_path, fate)
    run.run(RunList([planned()]))
    assert len(engine.orders) == 1
    assert diary.pages[-1] == ("finished", 1)
    found = Store(tmp_path).scan()[SPEC.key].record
    assert found is not None
    assert found.failure is not None
    assert found.failure.kind == kind


def test_a_run_that_somebody_stopped_is_left_alone(tmp_path: Path) -> None:
    run, _, diary = executor(tmp_path, is_stopped)
    run.run(RunList([planned()]))
    assert diary.pages[-1] == ("stopped", None)
    assert Store(tmp_path).scan()[SPEC.key].state == "interrupted"


def test_a_run_that_somebody_else_took_is_waited_for(tmp_path: Path) -> None:
    run, _, diary = executor(tmp_path, is_taken)
    run.run(RunList([planned()]))
    assert diary.pages[-2:] == [("elsewhere", None), ("finished", 1)]


def test_stop_asks_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    run, engine, diary = executor(tmp_path, None, None, finishes, slots=2)
    told = diary.started

    def stop_at_the_second(planned: PlannedRun, slot: int) -> None:
        told(planned, slot)
        if slot == 1:
            run.stop()

    diary.started = stop_at_the_second  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.run(RunList([planned(seed) for seed in range(3)]))
    assert len(engine.orders) == 2
    assert diary.pages[-2:] == [("stopped", None), ("stopped", None)]


def test_prune_reaches_the_attempt_once_it_has_a_folder(tmp_path: Path) -> None:
    run, engine, diary = executor(tmp_path, finishes)
    told = diary.progressed

    def prune_after_the_first(planned: PlannedRun, epoch: Epoch) -> None:
        told(planned, epoch)
        if epoch.epoch == 1:
            run.prune(planned)

    diary.progressed = prune_after_the_first  # type: ignore[method-assign]
    run.run(RunList([planned()]))
    folder = Store(tmp_path).folder(SPEC.key, engine.orders[0].attempt)
    assert (folder / "request").read_text(encoding="utf-8") == "prune"
