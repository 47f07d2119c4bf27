"""The parent's loop with made-up records: means over seeds, pruning, shared runs, what is paid."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.search import chosen_page, ledger, optuna_storage
from lightning_bench.bench.search.tuner import Tuner
from lightning_bench.bench.store.record import Epoch, Failure, Record
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.load import load
from tests.factory import COST, record, study_page, with_provenance


def tuned_page(space: dict[str, Any] | None = None, **entries: Any) -> str:
    """A page that searches for the learning rate of an entry, or of several."""
    return study_page(
        entries=entries or {"MLP": {"model": "mlp"}},
        recipe={"epochs": 5, "lr": 3e-3},
        search={
            "trials": 8,
            "sampler": "random",
            "pruner": "none",
            "space": space or {"lr": {"float": [1e-4, 1e-1], "log": True}},
        },
    )


class Bench:
    """A tuner, and an executor that trains nothing."""

    def __init__(self, page: Any, folder: Path, *settings: str, text: str = "") -> None:
        self.cells = load(page(text or tuned_page()), None, settings).cells()
        self.store = Store(folder / "store")
        self.store.prepare()
        self.begin()

    def begin(self) -> None:
        """A parent; the one before it is gone, and its claims with it."""
        self.pruned: list[str] = []
        memory = optuna_storage.connect(None, self.store.root / "searches")
        self.tuner = Tuner(self.cells, self.store, memory)
        self.tuner.prune = lambda planned: self.pruned.append(planned.key)

    def die(self) -> None:
        for trial in [trial for trials in self.tuner._open_trials.values() for trial in trials]:
            os.close(trial.claim.descriptor)  # as the kernel does

    def take(self) -> PlannedRun:
        planned = self.tuner.take()
        assert planned is not None
        return planned

    def write(self, planned: PlannedRun, values: list[float], **changes: Any) -> Record:
        curve = [
            Epoch(epoch=i, step=i, train_loss=1.0, metrics={"accuracy": value})
            for i, value in enumerate(values, 1)
        ]
        cost = COST.model_copy(update={"device_h": 0.25})
        fields = {"curve": curve, "metrics": {}, "cost": cost, **changes}
        made = record(planned.run.spec, planned.next_attempt, **fields)
        made = with_provenance(made, sources=dict(planned.sources))
        with self.store.claim(planned.run.spec, planned.next_attempt) as folder:
            self.store.write_record(folder, made)
        return made

    def run(self, planned: PlannedRun, values: list[float], **changes: Any) -> None:
        made = self.write(planned, values, **changes)
        for epoch in made.curve:
            self.tuner.progressed(planned, epoch)
        self.tuner.finished(planned, made)

    @property
    def trials(self) -> list[Any]:
        return ledger.search_folders(self.cells, self.store.root)[0].ledger().trials


def test_a_trial_of_several_seeds_is_judged_by_their_mean(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path, "search.seeds=2")
    first, second = bench.take(), bench.take()
    assert (first.run.trial, second.run.trial) == (0, 0)
    assert first.run.spec.seed != second.run.spec.seed
    assert not first.run.spec.tested
    bench.run(first, [0.1, 0.5])
    assert bench.trials == []
    bench.run(second, [0.3, 0.7])
    (trial,) = bench.trials
    assert trial.value == pytest.approx(0.6)
    assert trial.curve == [(1, pytest.approx(0.2)), (2, pytest.approx(0.6))]
    assert trial.device_h == pytest.approx(0.5)


def test_all_runs_of_a_hopeless_trial_are_stopped_and_none_at_its_end(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path, "search.seeds=2", "search.pruner=median")
    for _ in range(6):
        for _ in range(2):
            bench.run(bench.take(), [0.7, 0.8, 0.9, 0.9, 0.9])
    assert bench.pruned == []
    first, second = bench.take(), bench.take()
    made = bench.write(first, [0.1, 0.1, 0.1])
    for epoch in made.curve:
        bench.tuner.progressed(first, epoch)
    assert bench.pruned == []  # the mean over seeds is not known yet
    bench.tuner.progressed(second, made.curve[0])
    bench.tuner.progressed(second, made.curve[1])
    assert set(bench.pruned) == {first.key, second.key}
    bench.tuner.finished(first, made.model_copy(update={"status": "pruned"}))
    bench.run(second, [0.1, 0.1], status="pruned")
    trial = bench.trials[-1]
    assert (trial.state, trial.value) == ("pruned", None)
    assert trial.reason == "pruned after epoch 2"
    # One that falls behind in its last epoch alone has cost what it costs.
    bench.pruned.clear()
    for planned in (bench.take(), bench.take()):
        bench.run(planned, [0.9, 0.9, 0.9, 0.9, 0.0])
    assert bench.pruned == []
    assert bench.trials[-1].value == 0.0


def test_equal_trials_share_their_run_and_its_price(page, tmp_path: Path) -> None:
    text = tuned_page(space={"lr": {"choice": [3e-3, 1e-3]}})
    bench = Bench(page, tmp_path, text=text)
    runs = 0
    while planned := bench.tuner.take():
        runs += 1
        bench.run(planned, [0.5])
    assert runs == 2
    assert [trial.state for trial in bench.trials] == ["done"] * 8
    assert sum(trial.device_h for trial in bench.trials) == pytest.approx(0.5)
    assert not bench.tuner.open


def test_what_another_parent_left_is_taken_from_the_store(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path)
    planned = bench.take()
    bench.write(planned, [0.4])  # the worker ended, and its parent died before it heard
    bench.die()
    bench.begin()
    following = bench.take()
    assert following.run.trial == 1
    assert [(trial.number, trial.value) for trial in bench.trials] == [(0, 0.4)]


def test_a_trial_is_begun_again_once_whoever_loses_it(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path)
    lost = Failure(kind="infrastructure", message="was killed", log="l")
    first = bench.take()
    bench.write(first, [], failure=lost)
    bench.die()  # before it could begin the trial again
    bench.begin()
    again = bench.take()
    assert (again.key, again.next_attempt, again.losses) == (first.key, 2, 1)
    assert bench.trials == []
    bench.write(again, [], failure=lost)
    bench.die()
    bench.begin()
    assert bench.take().run.trial == 1  # it was lost twice, and is not begun a third time
    (trial,) = bench.trials
    assert (trial.state, trial.retries) == ("failed", 1)
    assert trial.runs == [f"{first.key}.1", f"{first.key}.2"]


def test_what_is_said_of_retries_is_what_the_store_holds(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path)
    lost = Failure(kind="infrastructure", message="was killed", log="l")
    bench.write(bench.take(), [], failure=lost)
    bench.die()
    bench.begin()
    bench.run(bench.take(), [0.4])
    (trial,) = bench.trials
    assert (trial.state, trial.value, trial.retries) == ("done", 0.4, 1)


def test_trials_that_ran_with_other_code_are_told(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path)
    for _ in range(2):
        bench.run(bench.take(), [0.4])
    (searched,) = ledger.search_folders(bench.cells, bench.store.root)
    today = dict(source_digests.of_run(bench.cells[0].base))
    assert searched.ledger(today).outdated_summary == ""
    found = searched.ledger({**today, "models/mlp.py": "another"})
    assert found.outdated == 2
    assert found.outdated_summary == (
        "2 of 2 trials ran with other code (models/mlp.py changed since)"
    )


def test_failures_count_with_their_reason_and_a_value_that_is_none_is_one(
    page, tmp_path: Path
) -> None:
    bench = Bench(page, tmp_path)
    broken = Failure(kind="divergence", message="NaN in epoch 2", log="l")
    bench.run(bench.take(), [0.4], failure=broken)
    bench.run(bench.take(), [0.4, float("nan")])
    bench.run(bench.take(), [])
    assert [trial.state for trial in bench.trials] == ["failed"] * 3
    assert [trial.reason for trial in bench.trials] == [
        "divergence: NaN in epoch 2",
        "no finite accuracy",
        "no finite accuracy",
    ]


def test_the_ceiling_in_device_hours_ends_a_search(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path, "search.device_h=0.6")
    for _ in range(3):
        bench.run(bench.take(), [0.5])
    assert bench.tuner.take() is None
    assert not bench.tuner.open
    found = ledger.search_folders(bench.cells, bench.store.root)[0].ledger()
    assert found.closed
    assert found.exhausted
    assert found.device_h == pytest.approx(0.75)


def test_searches_take_turns(page, tmp_path: Path) -> None:
    text = tuned_page(A={"model": "mlp"}, B={"model": "lenet"})
    bench = Bench(page, tmp_path, text=text)
    order = []
    for _ in range(4):
        planned = bench.take()
        order.append((planned.run.entry, planned.run.trial))
        bench.run(planned, [0.5])
    assert order == [("A", 0), ("B", 0), ("A", 1), ("B", 1)]


def test_what_was_chosen_is_a_page_with_the_final_runs(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path, "search.trials=2")
    for value in (0.4, 0.6):
        bench.run(bench.take(), [value])
    study = load(page(tuned_page()), None, ["search.trials=2"])
    found = [searched.ledger() for searched in ledger.search_folders(bench.cells, bench.store.root)]
    ((dataset, text),) = chosen_page.pages(study, found).items()
    assert dataset == "digits"
    (tmp_path / "chosen.yaml").write_text(text, encoding="utf-8")
    final = {run.key for run in study.runs(ledger.chosen(found))}
    assert {run.key for run in load(str(tmp_path / "chosen.yaml")).runs()} == final


def test_an_attempt_costs_what_it_took_where_no_record_tells(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path)
    resumed = bench.take()
    made = bench.write(resumed, [0.4], resumed_from=[1])
    took = datetime.fromisoformat(made.ended) - datetime.fromisoformat(made.started)
    attempt = bench.store.newest(resumed.key)
    assert attempt is not None
    # Its own cost counts the attempts before, which are paid for themselves.
    assert bench.tuner._device_h(attempt) == took.total_seconds() / 3600 != 0.25
    lost = bench.take()
    with bench.store.claim(lost.run.spec, lost.next_attempt) as folder:
        (folder / "log.txt").touch()
        for name, at in (("spec.json", 1000), ("log.txt", 1360)):
            os.utime(folder / name, (at, at))
        for path in set(folder.iterdir()) - {folder / "log.txt"}:
            os.utime(path, (1000, 1000))
        attempt = bench.store.newest(lost.key)
        assert attempt is not None
        assert attempt.record is None
        assert bench.tuner._device_h(attempt) == pytest.approx(0.1)
