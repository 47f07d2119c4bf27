"""Whole searches through `bench run`: budgets, choices, pruning, and what may die on the way."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import optuna
import pytest

from lightning_bench.bench.search import optuna_storage
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.load import load
from tests.bench.search.running import MLP, attempts, bench, kill, ledgers, start, tuned_page, write
from tests.commands import lock_holders, wait_for

TWO = tuned_page({"trials": 3}, entries={"MLP": MLP, "LeNet": {"model": "lenet", "group": "g"}})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searched")
    write(folder, TWO)
    said = bench(folder, "--jobs", "2")
    assert "6 of 6 trials to do, 2 at a time" in said
    assert "4 of 4 runs to do" in said
    assert "What tuning cost" in said
    return folder


def test_every_entry_has_its_trials_the_recipe_first(finished: Path) -> None:
    found = ledgers(finished)
    assert [(x.entry, len(x.trials), x.count("done"), x.closed) for x in found] == [
        ("MLP", 3, 3, True),
        ("LeNet", 3, 3, True),
    ]
    assert found[0].trials[0].params == {"lr": 0.003, "args.depth": 2}
    assert all(trial.device_h > 0 for x in found for trial in x.trials)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"precision": {"choice": ["fp32", "fp16"]}}, "MLP: precision fp16 needs a GPU"),
        (
            {"batch_size": {"choice": [2, 64]}, "accumulate": {"int": [1, 4]}},
            "MLP: a batch of 2 is too small for one device in 4 parts each",
        ),
    ],
)
def test_a_space_with_values_that_cannot_be_trained_is_refused(tmp_path, space, says) -> None:
    write(tmp_path, tuned_page({"space": space}))
    said = bench(tmp_path, "--device", "cpu", code=2)
    assert says in said
    assert said.count("\n") == 1
    assert not (tmp_path / "bench-store").exists()


def test_ends_that_are_never_drawn_together_are_no_mistake(tmp_path) -> None:
    parts = {"int": [1, 4], "when": {"batch_size": 64}}
    space = {"batch_size": {"choice": [2, 64]}, "accumulate": parts}
    write(tmp_path, tuned_page({"space": space}))
    (cell,) = load(str(tmp_path / "tuned.yaml")).cells()
    found = {(r.batch_size, r.accumulate) for r in cell.extremes("batch_size", "accumulate")}
    assert found == {(2, 1), (64, 1), (64, 4)}


def test_trials_never_see_the_test_split_and_final_runs_have_fresh_seeds(finished: Path) -> None:
    records = [a.record for a in Store(finished / "bench-store").scan().values() if a.record]
    trials = [record for record in records if not record.spec.tested]
    final = [record for record in records if record.spec.tested]
    assert (len(trials), len(final)) == (6, 4)
    assert all(record.metrics == {} and record.scored == 0 for record in trials)
    assert all(record.scored == 359 for record in final)
    assert not {r.spec.seed for r in trials} & {r.spec.seed for r in final}


def test_final_runs_have_the_best_trial_s_values(finished: Path) -> None:
    study = load(str(finished / "tuned.yaml"))
    for found in ledgers(finished):
        best = max(found.trials, key=lambda trial: (trial.value, -trial.number))
        assert found.chosen == best.params
        cell = next(cell for cell in study.cells() if cell.entry == found.entry)
        keys = {cell.spec(best.params, seed, tested=True).key for seed in study.seeds}
        assert keys <= Store(finished / "bench-store").scan().keys()
        value = next(iter(attempts(finished)[best.keys[0]])).record.curve[-1].metrics["accuracy"]
        assert best.value == value


def test_again_nothing_runs_and_the_chosen_page_has_the_same_runs(finished: Path) -> None:
    runs = sorted(path.name for path in (finished / "bench-store/runs").iterdir())
    again = bench(finished)
    assert "to do" not in again
    report = finished / "bench-store/reports/tuned-smoke"
    write(finished, (report / "tuned-chosen.yaml").read_text(encoding="utf-8"), "chosen.yaml")
    plan = json.loads(bench(finished, "--format", "json", command="plan"))
    keys = {row["key"] for row in plan if "key" in row}
    assert {run.key for run in load(str(finished / "chosen.yaml")).runs()} == keys
    assert sorted(path.name for path in (finished / "bench-store/runs").iterdir()) == runs
    assert [row["trials"] for row in plan if row["name"].endswith("/search")] == [3, 3]


def test_status_and_check_know_the_searches(finished: Path) -> None:
    status = json.loads(bench(finished, "--format", "json", command="status"))
    assert [row["searches"][0]["done"] for row in status] == [3, 3]
    checked = start(finished, "--format", "json", command="check").communicate(timeout=60)[0]
    assert next(row for row in json.loads(checked) if row["name"] == "tuning")["kept"]


def test_optuna_can_open_the_storage_as_it_is(finished: Path) -> None:
    journal = finished / "bench-store/searches/tuned-smoke" / optuna_storage.JOURNAL
    backend = optuna.storages.journal.JournalFileBackend(str(journal))
    opened = optuna.storages.JournalStorage(backend)
    studies = optuna.get_all_study_summaries(storage=opened)
    assert len(studies) == 2
    for summary in studies:
        trials = optuna.load_study(study_name=summary.study_name, storage=opened).trials
        assert [trial.state.name for trial in trials] == ["COMPLETE"] * 3


def test_a_larger_budget_runs_only_what_is_added(finished: Path) -> None:
    before = attempts(finished).keys()
    said = bench(finished, "--set", "search.trials=4")
    assert "2 of 8 trials to do" in said
    assert len(attempts(finished).keys() - before) == 2
    assert [len(found.trials) for found in ledgers(finished, "search.trials=4")] == [4, 4]


TWO_OBJECTIVES = tuned_page(
    {"trials": 5, "cost": "parameters", "cost_at_most": 2000},
    entries={"MLP": MLP | {"space": {"args.width": {"int": [8, 64], "log": True}}}},
)


def test_accuracy_and_cost_give_a_front_from_which_the_budget_s_best_is_chosen(
    tmp_path: Path,
) -> None:
    write(tmp_path, TWO_OBJECTIVES)
    bench(tmp_path, "--jobs", "2")
    (found,) = ledgers(tmp_path)
    front = found.front()
    reached = [(trial.cost, trial.value) for trial in front]
    assert reached == sorted(reached)  # the dearer, the better
    for trial in found.trials:
        assert any(cost <= trial.cost and value >= trial.value for cost, value in reached)
    # Parameters are the model's own, and the chosen one is the best of those it may cost.
    (attempt,) = attempts(tmp_path)[found.best.keys[0]]
    assert found.best.cost == attempt.record.cost.parameters <= 2000
    assert found.best.value == max(t.value for t in found.trials if t.cost <= 2000)
    folder = tmp_path / "bench-store/reports/tuned-smoke"
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    (table,) = [table for table in report["tables"] if table["id"] == "front"]
    assert [row["cells"][0]["printed"].split()[0] for row in table["rows"]] == [
        str(trial.number) for trial in front
    ]
    for name in ("report.md", "report.html"):
        assert "Validation against cost" in (folder / name).read_text(encoding="utf-8")
    cell = load(str(tmp_path / "tuned.yaml")).cells()[0]
    memory = optuna_storage.connect(None, tmp_path / "bench-store/searches/tuned-smoke")
    best = optuna.load_study(study_name=cell.name, storage=memory).best_trials
    assert {trial.number for trial in front} <= {trial.number for trial in best}


def test_a_storage_out_of_reach_is_one_line_before_anything_starts(tmp_path: Path) -> None:
    write(tmp_path)
    pytest.importorskip("psycopg")
    said = bench(tmp_path, "--storage", "postgresql://me:secret@127.0.0.1:1/x", code=2)
    assert said.count("\n") == 1
    assert "can't be used" in said
    assert "secret" not in said
    assert not (tmp_path / "bench-store").exists()


SLOW = tuned_page(
    {"trials": 3, "space": {"lr": {"float": [1e-4, 1e-2], "log": True}}},
    entries={"Slow": {"model": "tests.bench.misbehaving:slow"}},
    seeds=1,
    recipe={"epochs": 4},
)


def running_attempt(folder: Path) -> Any:
    """A trial's attempt that has begun to train."""
    for attempt in Store(folder / "bench-store").scan().values():
        curve = attempt.folder / "curve.jsonl"
        if attempt.state == "running" and curve.exists() and curve.stat().st_size:
            return attempt
    return None


@pytest.mark.slow
def test_a_trial_killed_with_its_worker_is_begun_again_once_as_the_same_trial(
    tmp_path: Path,
) -> None:
    write(tmp_path, SLOW)
    parent = start(tmp_path, "--jobs", "1")
    flight = wait_for(lambda: running_attempt(tmp_path))
    kill(*lock_holders(flight.folder / "lock"))
    out, err = parent.communicate(timeout=120)
    assert parent.returncode == 0, out + err
    assert "again" in out
    (found,) = ledgers(tmp_path)
    assert [(trial.number, trial.state) for trial in found.trials] == [
        (0, "done"),
        (1, "done"),
        (2, "done"),
    ]
    assert [trial.retries for trial in found.trials] == [1, 0, 0]
    tried = attempts(tmp_path)
    assert sorted(map(len, tried.values())) == [1, 1, 2]
    # What the lost attempt cost is counted too.
    assert found.trials[0].runs == [f"{flight.key}.1", f"{flight.key}.2"]
    assert found.trials[0].device_h > tried[flight.key][1].record.cost.device_h / 2


@pytest.mark.slow
def test_a_trial_lost_twice_has_failed_and_is_counted_once(tmp_path: Path) -> None:
    write(tmp_path, SLOW.replace("misbehaving:slow", "misbehaving:killed"))
    bench(tmp_path, "--set", "search.trials=2", code=3)
    (found,) = ledgers(tmp_path, "search.trials=2")
    assert [trial.state for trial in found.trials] == ["failed", "failed"]
    assert all("SIGKILL" in trial.reason for trial in found.trials)
    assert [len(tried) for tried in attempts(tmp_path).values()] == [2, 2]


@pytest.mark.slow
def test_after_kill_9_of_the_parent_the_same_command_takes_over(tmp_path: Path) -> None:
    write(tmp_path, SLOW)
    parent = start(tmp_path, "--jobs", "1")
    flight = wait_for(lambda: running_attempt(tmp_path))
    kill(parent.pid)
    parent.communicate()
    (found,) = ledgers(tmp_path)
    assert (len(found.trials), found.interrupted) == (0, 1)
    assert "1 interrupted" in bench(tmp_path, command="plan")
    bench(tmp_path)
    (found,) = ledgers(tmp_path)
    assert [trial.state for trial in found.trials] == ["done"] * 3
    assert found.trials[0].keys == [flight.key]
    folder = tmp_path / "bench-store/searches/tuned-smoke"
    study = optuna.load_study(
        study_name=load(str(tmp_path / "tuned.yaml")).cells()[0].name,
        storage=optuna_storage.connect(None, folder),
    )
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3


@pytest.mark.slow
def test_ctrl_c_says_how_far_the_search_is_and_goes_on(tmp_path: Path) -> None:
    write(tmp_path, SLOW)
    parent = start(tmp_path, "--jobs", "1")
    wait_for(lambda: running_attempt(tmp_path))
    os.killpg(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=30)
    assert parent.returncode == 130, out + err
    assert "of 3 trials are finished and kept; go on with" in out
    bench(tmp_path)
    assert [trial.state for trial in ledgers(tmp_path)[0].trials] == ["done"] * 3


# In the grid's order of this seed the second trial tells one class alone, the third all of them.
PRUNED = tuned_page(
    {
        "trials": 4,
        "sampler": "grid",
        "pruner": "asha",
        "seed": 5,
        "space": {"args.told": {"choice": [5, 1, 10]}},
    },
    entries={"Judged": {"model": "tests.bench.misbehaving:hopeless"}},
    seeds=1,
    recipe={"epochs": 3, "lr": 1e-2, "batch_size": 16},
)


@pytest.mark.slow
def test_a_trial_on_two_ranks_is_pruned_within_an_epoch_and_the_next_is_clean(
    tmp_path: Path,
) -> None:
    write(tmp_path, PRUNED)
    bench(tmp_path, "--jobs", "1", "--devices", "2", "--device", "cpu")
    (found,) = ledgers(tmp_path)
    told = [trial.params["args.told"] for trial in found.trials]
    assert told.index(1) < told.index(10)  # the next one trains anew
    assert {t.params["args.told"]: t.state for t in found.trials} == {
        5: "done", 1: "pruned", 10: "done",
    }  # fmt: skip
    tried = attempts(tmp_path)
    steps_an_epoch = 0
    for trial in found.trials:
        (attempt,) = tried[trial.keys[0]]
        record, pruned = attempt.record, trial.state == "pruned"
        assert (record.provenance.devices, len(record.curve) < 3) == (2, pruned)
        logs = [(attempt.folder / name).read_text("utf-8") for name in ("log.txt", "log-1.txt")]
        assert not any("Traceback" in log for log in logs), logs
        # Every rank left the group before it ended, whoever told it to end.
        ends = [{"parted", "together"} & set(log.splitlines()) for log in logs]
        assert ends == [{"parted"}, {"parted"}], logs
        first, second = (re.findall(r"^step \d+$", log, re.MULTILINE) for log in logs)
        assert first == second
        if pruned:
            assert record.metrics == {}
            assert len(first) % steps_an_epoch
            assert len(first) // steps_an_epoch == len(record.curve) == len(trial.curve)
        else:
            steps_an_epoch = len(first) // 3


def test_what_the_trials_start_from_is_trained_once_and_before_them(tmp_path: Path) -> None:
    stage = {"data": "digits", "recipe": {"epochs": 2, "lr": 3e-3}, "seed": 7}
    entries = {"MLP": {"model": "mlp", "args": {"width": 16}, "start": "before"}}
    write(tmp_path, tuned_page({"trials": 2}, entries=entries, stages={"before": stage}))
    bench(tmp_path, "--jobs", "2")
    found = Store(tmp_path / "bench-store").scan()
    records = {attempt.record.key: attempt.record for attempt in found.values() if attempt.record}
    (stage,) = [record for record in records.values() if record.start is None]
    others = [record for record in records.values() if record.start is not None]
    assert (stage.spec.seed, stage.attempt, len(others)) == (7, 1, 2 + 2)
    for record in others:
        assert record.spec.start == stage.spec
        assert (record.start.key, record.start.attempt) == (stage.key, 1)
        assert record.start.weights_sha256 == stage.weights
        assert record.started >= stage.ended
    assert sum(not record.spec.tested for record in others) == 2
    again = bench(tmp_path)
    assert "to do" not in again
