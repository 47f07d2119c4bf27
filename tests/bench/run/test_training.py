"""`bench run`, as its users start it: real processes, real training, real kills."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_bench.bench.store import predictions
from lightning_bench.bench.store.store import Store, read_record
from lightning_bench.bench.study.load import load
from lightning_bench.reports.statistics import per_example
from tests.commands import BENCH, TESTS_IMPORTABLE, bench, lock_holders, start

SMALL = """\
title: Two small ones
question: Which?
data: [digits]
entries:
  MLP: {model: mlp, args: {width: 16}}
  LeNet: {model: lenet}
seeds: 2
recipe: {epochs: 2, lr: 3e-3}
scales: {smoke: {}}
"""


def records(folder: Path) -> dict[tuple[str, int], Any]:
    store = Store(folder / "bench-store")
    found = (attempt.record for attempt in store.scan().values())
    return {(r.spec.model.name, r.spec.seed): r for r in found if r}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small study has been run, two runs at a time."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
    done = bench("run", "small.yaml", "--jobs", "2", cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    (folder / "stdout.txt").write_text(done.stdout, encoding="utf-8")
    return folder


def test_the_table_and_the_files_are_there(finished: Path) -> None:
    text = (finished / "stdout.txt").read_text(encoding="utf-8")
    assert "4 of 4 runs to do, 2 at a time" in text
    assert "[4/4]" in text
    assert "Two small ones" in text
    folder = finished / "bench-store/reports/small-smoke"
    for suffix in ("md", "tex", "html", "csv", "json"):
        assert (folder / f"report.{suffix}").stat().st_size > 0, suffix


def test_the_predictions_give_the_metric_of_the_record(finished: Path) -> None:
    for attempt in Store(finished / "bench-store").scan().values():
        record = attempt.record
        found = predictions.read(attempt.folder, record.predictions)
        totals, measure = per_example.sums("accuracy", found)
        assert measure(totals.sum(axis=0, keepdims=True)) == [record.metrics["accuracy"]]


def test_the_record_can_be_traced(finished: Path) -> None:
    store = Store(finished / "bench-store")
    for attempt in store.scan().values():
        record = attempt.record
        assert record is not None
        assert record.status == "done"
        assert record.scored == record.data.test == 359
        assert [epoch.epoch for epoch in record.curve] == [1, 2]
        assert record.cost.parameters == record.cost.trainable_parameters > 1000
        assert record.cost.total_s >= record.cost.train_s > 0
        assert 50e6 < record.cost.peak_memory_bytes < 4e9
        assert record.provenance.device == "cpu"
        assert record.provenance.command[1:] == ["run", "small.yaml", "--jobs", "2"]
        environment = store.read_environment(record.provenance.environment)
        assert environment is not None
        assert "torch" in environment.packages
        assert json.loads((attempt.folder / "spec.json").read_text())["seed"] == record.spec.seed


def test_the_report_shows_the_data(finished: Path) -> None:
    (page,) = (finished / "bench-store" / "reports").rglob("report.html")
    text = page.read_text(encoding="utf-8")
    assert text.count('<img src="data:image/png;base64,') == 10  # digits, a picture a class
    assert len(text) < 2_000_000


def test_the_predictions_give_the_metrics(finished: Path) -> None:
    for attempt in Store(finished / "bench-store").scan().values():
        predictions = np.load(attempt.folder / "predictions.npz")
        assert predictions["index"].tolist() == list(range(359))
        accuracy = (predictions["predicted"] == predictions["target"]).mean()
        assert accuracy == pytest.approx(attempt.record.metrics["accuracy"], abs=1e-12)
        assert accuracy > 0.2  # it has learnt something


def test_again_it_only_prints(finished: Path) -> None:
    before = sorted((finished / "bench-store").rglob("*"))
    times = [path.stat().st_mtime_ns for path in before]
    again = bench("run", "small.yaml", cwd=finished)
    assert again.returncode == 0
    assert "to do" not in again.stdout
    assert "Two small ones" in again.stdout
    assert sorted((finished / "bench-store").rglob("*")) == before
    assert [path.stat().st_mtime_ns for path in before] == times


def test_jobs_and_order_do_not_change_a_bit(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    assert bench("run", "small.yaml", "--jobs", "1", cwd=tmp_path).returncode == 0
    ours, theirs = records(tmp_path), records(finished)
    assert ours.keys() == theirs.keys()
    for name, record in ours.items():
        assert record.metrics == theirs[name].metrics
        assert record.curve == theirs[name].curve
        assert record.predictions == theirs[name].predictions
        assert record.data == theirs[name].data


def test_other_formats_read_the_same_store(finished: Path) -> None:
    plan = bench("plan", "small.yaml", "--format", "json", cwd=finished)
    assert {row["state"] for row in json.loads(plan.stdout)} == {"done"}
    # Neither earlier runs nor the number of jobs are part of a key.
    keys = [row["key"] for row in json.loads(plan.stdout)]
    elsewhere = bench("plan", "small.yaml", "--store", "x", "--format", "json", cwd=finished)
    assert [row["key"] for row in json.loads(elsewhere.stdout)] == keys
    status = bench("status", "small.yaml", "--format", "json", cwd=finished)
    assert [row["done"] for row in json.loads(status.stdout)] == [2, 2]
    reported = bench("report", "small.yaml", "--format", "md,csv", cwd=finished)
    assert reported.returncode == 0
    assert reported.stdout.endswith("small-smoke: report.md report.csv\n")
    folder = finished / "bench-store/reports/small-smoke"
    page = (folder / "report.md").read_text(encoding="utf-8")
    figures = re.findall(r"\]\((figures/.+?\.svg)\)", page)
    assert figures
    for figure in figures:
        assert (folder / figure).read_text(encoding="utf-8").endswith("</svg>\n")


def test_a_report_that_nobody_reads_to_its_end_is_written_all_the_same(finished: Path) -> None:
    made = finished / "bench-store/reports/small-smoke/report.tex"
    made.unlink(missing_ok=True)
    command = (
        f"{shlex.quote(BENCH)} report small.yaml --format latex | true; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=finished)
    assert (done.returncode, done.stderr) == (0, "")
    assert made.is_file()


def test_check_compare_diff_and_reproduce(finished: Path) -> None:
    checked = bench("check", "small.yaml", "--format", "json", cwd=finished)
    rules = {row["name"]: row for row in json.loads(checked.stdout)}
    # Only the state of the checkout may be amiss.
    assert all(row["kept"] for name, row in rules.items() if name != "revisions")
    assert checked.returncode == (0 if rules["revisions"]["kept"] else 3)

    compared = bench("compare", "small.yaml", "LeNet", "MLP", cwd=finished)
    assert compared.stdout.startswith("digits, accuracy")
    assert "LeNet − MLP" in compared.stdout
    assert "undecided" in compared.stdout  # two seeds can't carry a claim

    report = finished / "bench-store/reports/small-smoke"
    assert bench("diff", str(report), str(report), cwd=finished).stdout == "nothing changed\n"

    key = next(iter(Store(finished / "bench-store").scan()))
    again = bench("reproduce", key[:12], cwd=finished)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout == f"{key}: equal bit for bit\n"


MISBEHAVING = """\
title: Trouble
question: Does one harm another?
data: [digits]
entries:
  Raises: {model: "tests.bench.misbehaving:raises"}
  Killed: {model: "tests.bench.misbehaving:killed"}
  Exits: {model: "tests.bench.misbehaving:exits"}
  Memory: {model: "tests.bench.misbehaving:out_of_memory"}
  NaN: {model: "tests.bench.misbehaving:not_a_number"}
  Good: {model: mlp, args: {width: 16}}
seeds: 1
recipe: {epochs: 1}
scales: {smoke: {}}
"""


def test_a_failing_run_harms_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "trouble.yaml").write_text(MISBEHAVING, encoding="utf-8")
    done = bench("run", "trouble.yaml", cwd=tmp_path, env=TESTS_IMPORTABLE)
    assert done.returncode == 3
    assert "Traceback" not in done.stdout + done.stderr
    found = {name.partition(":")[2] or name: r for (name, _), r in records(tmp_path).items()}
    assert found["mlp"].status == "done"
    kinds = {name: record.failure.kind for name, record in found.items() if record.failure}
    assert kinds == {
        "raises": "code",
        "killed": "infrastructure",
        "exits": "code",
        "out_of_memory": "out-of-memory",
        "not_a_number": "divergence",
    }
    assert found["raises"].failure.message == "RuntimeError: line one line two"
    assert "SIGKILL" in found["killed"].failure.message
    log = tmp_path / "bench-store" / found["raises"].failure.log
    assert "Traceback" in log.read_text(encoding="utf-8")
    status = bench("status", "trouble.yaml", cwd=tmp_path, env=TESTS_IMPORTABLE)
    assert "RuntimeError: line one line two" in status.stdout
    assert str(found["raises"].failure.log) in status.stdout

    # What was lost had three attempts each time, what failed by itself one.
    again = bench("run", "trouble.yaml", cwd=tmp_path, env=TESTS_IMPORTABLE)
    assert again.returncode == 3
    attempts = {
        a.record.spec.model.name.partition(":")[2]: a.number
        for a in Store(tmp_path / "bench-store").scan().values()
    }
    assert attempts == {
        "raises": 1, "killed": 6, "exits": 1, "out_of_memory": 1, "not_a_number": 1, "": 1
    }  # fmt: skip


MISSING = """\
title: Not here
question: What is missing?
data: [mnist]
entries: {MLP: {model: mlp}}
seeds: 1
scales: {smoke: {}}
"""


def test_missing_data_is_one_line_within_seconds(tmp_path: Path) -> None:
    (tmp_path / "missing.yaml").write_text(MISSING, encoding="utf-8")
    nowhere = {"BENCH_DATA": str(tmp_path), "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    began = time.monotonic()
    done = bench("run", "missing.yaml", cwd=tmp_path, env=nowhere)
    assert time.monotonic() - began < 5
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "bench prepare" in done.stderr
    assert "BENCH_DATA" in done.stderr
    assert not (tmp_path / "bench-store").exists()


SLOW = """\
title: Slow
question: How does it end?
data: [digits]
entries:
  Quick: {model: mlp, args: {width: 16}}
  Slow: {model: "tests.bench.misbehaving:slow"}
seeds: 2
recipe: {epochs: 3}
scales: {smoke: {}}
"""


def start_slow(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return start("run", "slow.yaml", *arguments, cwd=folder, env=TESTS_IMPORTABLE)


def wait_for_a_running_slow_run(folder: Path) -> Path:
    """The folder of a slow run that has begun to train."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for attempt in Store(folder / "bench-store").scan().values():
            log = attempt.folder / "curve.jsonl"
            slow = "slow" in (attempt.folder / "spec.json").read_text(encoding="utf-8")
            if attempt.state == "running" and slow and log.exists() and log.stat().st_size:
                return attempt.folder
        time.sleep(0.05)
    raise AssertionError("no slow run began")


def wait_until_released(folder: Path) -> None:
    deadline = time.monotonic() + 10
    store = Store(folder / "bench-store")
    while any(attempt.state == "running" for attempt in store.scan().values()):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Any]:
    """The records of the slow study, run without trouble."""
    folder = tmp_path_factory.mktemp("calm")
    (folder / "slow.yaml").write_text(SLOW, encoding="utf-8")
    assert bench("run", "slow.yaml", cwd=folder, env=TESTS_IMPORTABLE).returncode == 0
    return records(folder)


@pytest.mark.slow
def test_kill_9_of_the_parent_costs_the_runs_in_flight(tmp_path: Path, calm: Any) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW, encoding="utf-8")
    parent = start_slow(tmp_path)
    flight = wait_for_a_running_slow_run(tmp_path)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    wait_until_released(tmp_path)
    assert not (flight / "record.json").exists()
    plan = bench("plan", "slow.yaml", cwd=tmp_path, env=TESTS_IMPORTABLE)
    assert "attempt 1 was interrupted" in plan.stdout
    assert bench("run", "slow.yaml", cwd=tmp_path, env=TESTS_IMPORTABLE).returncode == 0
    found = records(tmp_path)
    assert {k: r.metrics for k, r in found.items()} == {k: r.metrics for k, r in calm.items()}
    assert {k: r.curve for k, r in found.items()} == {k: r.curve for k, r in calm.items()}


@pytest.mark.slow
def test_kill_9_of_a_worker_costs_an_attempt(tmp_path: Path, calm: Any) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW, encoding="utf-8")
    parent = start_slow(tmp_path)
    flight = wait_for_a_running_slow_run(tmp_path)
    os.kill(*lock_holders(flight / "lock"), signal.SIGKILL)
    out, _ = parent.communicate(timeout=60)
    assert parent.returncode == 0
    assert "again" in out
    record = read_record(flight / "record.json")
    assert record.failure is not None
    assert record.failure.kind == "infrastructure"
    assert "SIGKILL" in record.failure.message
    found = records(tmp_path)
    assert {k: r.metrics for k, r in found.items()} == {k: r.metrics for k, r in calm.items()}
    numbers = {a.key: a.number for a in Store(tmp_path / "bench-store").scan().values()}
    assert sorted(numbers.values()) == [1, 1, 1, 2]
    assert numbers[record.key] == 2


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW, encoding="utf-8")
    parent = start_slow(tmp_path, "--set", "recipe.epochs=4")
    wait_for_a_running_slow_run(tmp_path)
    os.killpg(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=20)
    assert parent.returncode == 130
    assert "bench run slow.yaml --set recipe.epochs=4" in out
    assert err == ""
    wait_until_released(tmp_path)


@pytest.mark.slow
def test_two_parents_share_the_work(tmp_path: Path, calm: Any) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW, encoding="utf-8")
    parents = [start_slow(tmp_path, "--jobs", "1") for _ in range(2)]
    for parent in parents:
        out, err = parent.communicate(timeout=120)
        assert parent.returncode == 0, out + err
        assert "Slow" in out
    runs = list((tmp_path / "bench-store/runs").iterdir())
    assert len(runs) == len(load(str(tmp_path / "slow.yaml")).runs())  # nothing ran twice
    found = records(tmp_path)
    assert {k: r.metrics for k, r in found.items()} == {k: r.metrics for k, r in calm.items()}


@pytest.mark.slow
def test_a_damaged_record_is_named_and_its_run_done_again(finished: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(finished, folder)
    store = Store(folder / "bench-store")
    victim = next(iter(store.scan().values()))
    path = victim.folder / "record.json"
    path.write_bytes(path.read_bytes()[:200])
    plan = bench("plan", "small.yaml", cwd=folder)
    assert plan.returncode == 0
    assert "the record of attempt 1 is damaged" in " ".join(plan.stdout.split())
    done = bench("run", "small.yaml", cwd=folder)
    assert done.returncode == 0
    assert (victim.folder / "record.json.damaged").exists()
    again = store.scan()[victim.key]
    assert again.number == 2
    assert (
        again.record.metrics
        == records(finished)[(again.record.spec.model.name, again.record.spec.seed)].metrics
    )


def test_every_record_tells_training_accuracy_beside_that_of_the_test(finished: Path) -> None:
    found = records(finished)
    assert len(found) == 4
    for record in found.values():
        metrics = record.metrics
        assert 0.3 < metrics["accuracy_train"] <= 1
        assert metrics["accuracy_train"] != metrics["accuracy"]
        # Of the final weights as evaluation sees them, not the mean over the last epoch.
        assert metrics["loss_train"] < record.curve[-1].train_loss
        assert record.scored == 359
    done = bench("run", "small.yaml", "--set", "metrics=[accuracy_train]", cwd=finished)
    assert "accuracy train [%]" in done.stdout
    wrong = bench("run", "small.yaml", "--set", "metrics=[f1_train]", cwd=finished)
    assert wrong.returncode == 2
    assert "f1_train" in wrong.stderr


def test_a_study_is_ranked_by_the_metric_that_its_page_names(finished: Path) -> None:
    page = SMALL.replace("data: [digits]", "data: [{name: digits, shifts: 1}]\nranked_by: NAME")
    (finished / "shifted.yaml").write_text(page.replace("NAME", "accuracy_shift1"))
    done = bench("run", "shifted.yaml", cwd=finished)
    assert done.returncode == 0, done.stderr
    report = json.loads(
        (finished / "bench-store/reports/shifted-smoke/report.json").read_text(encoding="utf-8")
    )
    assert report["tables"][0]["columns"][0]["id"] == "digits/accuracy_shift1"
    (finished / "wrong.yaml").write_text(page.replace("NAME", "accuracy_shift2"))
    wrong = bench("run", "wrong.yaml", cwd=finished)
    assert wrong.returncode == 2
    assert "digits has no 'accuracy_shift2'; did you mean 'accuracy_shift1'" in wrong.stderr
