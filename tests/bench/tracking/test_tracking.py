"""Mirrors of the store: what arrives, and that an outage costs nothing."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.store.store import Store
from lightning_bench.bench.tracking import weights_and_biases
from tests.bench.run.test_training import SLOW, SMALL, start_slow, wait_for_a_running_slow_run
from tests.commands import bench


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder where a study ran with every tracker and no credentials, and what was printed."""
    folder = tmp_path_factory.mktemp("tracked")
    (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
    trackers = [word for name in ("wandb", "tensorboard", "csv") for word in ("--track", name)]
    done = bench("run", "small.yaml", *trackers, cwd=folder, env=home(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder, done.stdout


def home(folder: Path, **more: str) -> dict[str, str]:
    """An environment of somebody who never logged in anywhere."""
    return {"WANDB_API_KEY": "", "HOME": str(folder), "XDG_CACHE_HOME": str(folder), **more}


def inspect(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The events of every offline W&B run in a store, by the run's id."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((folder / "bench-store/wandb").glob("offline-run-*")):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[path.name.split("-", 3)[-1]] = [json.loads(line) for line in lines.splitlines()]
    return found


def of_type(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event[kind] for event in events if event["type"] == kind]


@pytest.mark.slow
def test_every_run_arrives_in_weights_and_biases(tracked: tuple[Path, str]) -> None:
    folder, printed = tracked
    assert "4 runs written offline" in printed
    assert "bench sync small" in printed
    arrived = inspect(folder)
    records = Store(folder / "bench-store").scan()
    assert arrived.keys() == {*records, "report-small-smoke"}
    for key, attempt in records.items():
        record, events = attempt.record, arrived[key]
        (run,) = of_type(events, "run")
        assert run["run_id"] == key
        assert run["run_group"] == "small-smoke"
        assert run["job_type"] == "train"
        assert {"smoke", "digits"} <= set(run["tags"])
        assert run["config"]["update"]["seed"] == record.spec.seed
        curve = [item["item"] for item in of_type(events, "history")]
        assert [point["val/accuracy"] for point in curve] == [
            epoch.metrics["accuracy"] for epoch in record.curve
        ]
        summary = {k: v for part in of_type(events, "summary") for k, v in part["update"].items()}
        assert summary["test/accuracy"] == record.metrics["accuracy"]
        assert summary["cost/parameters"] == record.cost.parameters
        assert summary["status"] == "done"


@pytest.mark.slow
def test_the_report_is_a_run_with_tables_figures_and_files(tracked: tuple[Path, str]) -> None:
    events = inspect(tracked[0])["report-small-smoke"]
    (run,) = of_type(events, "run")
    assert run["job_type"] == "report"
    logged = {name for item in of_type(events, "history") for name in item["item"]}
    assert any(name.startswith("tables/") for name in logged)
    assert any(name.startswith("figures/") for name in logged)
    names = json.dumps(of_type(events, "artifact"))
    assert all(f"report.{suffix}" in names for suffix in ("html", "md", "tex", "csv", "json"))


@pytest.mark.slow
def test_all_ranks_of_a_run_are_one_run_there(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    options = ["--devices", "2", "--track", "wandb"]
    done = bench("run", "small.yaml", *options, cwd=tmp_path, env=home(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    records = Store(tmp_path / "bench-store").scan()
    assert {attempt.record.provenance.devices for attempt in records.values()} == {2}
    folders = list((tmp_path / "bench-store/wandb").glob("offline-run-*"))
    assert len(folders) == len(records) + 1  # the report's
    arrived = inspect(tmp_path)
    assert arrived.keys() == {*records, "report-small-smoke"}
    for key, attempt in records.items():
        assert len(of_type(arrived[key], "history")) == len(attempt.record.curve)


@pytest.mark.slow
def test_nothing_is_written_into_the_home(tracked: tuple[Path, str]) -> None:
    folder, _ = tracked
    found = {path.name for path in folder.iterdir()} - {"bench-store", "small.yaml"}
    assert found <= {".config", "lightning-bench", "matplotlib", "fontconfig"}


@pytest.mark.slow
def test_csv_and_tensorboard_hold_the_curves(tracked: tuple[Path, str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, _ = tracked
    store = folder / "bench-store"
    files = sorted((store / "csv/small-smoke").glob("*.csv"))
    logs = sorted((store / "tensorboard/small-smoke").iterdir())
    assert [path.stem for path in files] == [path.name for path in logs]
    records = {key[:6]: a.record for key, a in Store(store).scan().items()}
    for file, log in zip(files, logs, strict=True):
        record = records[file.stem.rpartition("-")[2]]
        with file.open(encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        losses = [epoch.train_loss for epoch in record.curve]
        assert [float(row["train/loss"]) for row in rows] == losses
        events = EventAccumulator(str(log)).Reload()
        scalars = [event.tensor_proto for event in events.Tensors("train/loss")]
        assert [s.float_val[0] for s in scalars] == pytest.approx(losses)


@pytest.mark.slow
def test_sync_writes_all_of_it_again(tracked: tuple[Path, str]) -> None:
    folder, _ = tracked
    before = inspect(folder).keys()
    for path in (folder / "bench-store/wandb").glob("offline-run-*"):
        path.rename(path.with_name(f"was-{path.name}"))
    done = bench("sync", "small.yaml", "--offline", cwd=folder, env=home(folder))
    assert done.returncode == 0, done.stderr
    assert inspect(folder).keys() == before


def test_without_credentials_sync_says_so(tracked_free: Path) -> None:
    done = bench("sync", "small.yaml", cwd=tracked_free, env=home(tracked_free))
    assert done.returncode == 2
    assert "no W&B credentials: wandb login, or set WANDB_API_KEY" in done.stderr


@pytest.fixture
def tracked_free(tmp_path: Path) -> Path:
    """A folder with a store that holds one interrupted attempt."""
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    from lightning_bench.bench.study.load import load

    spec = load(str(tmp_path / "small.yaml")).runs()[0].spec
    with Store(tmp_path / "bench-store").claim(spec, 1):
        pass
    return tmp_path


def test_the_mode_never_asks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert weights_and_biases.mode() == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    assert weights_and_biases.mode() == "online"
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert weights_and_biases.mode() == "offline"


@pytest.mark.slow
def test_an_outage_costs_training_nothing(tmp_path: Path) -> None:
    """A key, but nobody listens: runs and table are as ever, one line says what to do."""
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    nobody = home(tmp_path, WANDB_API_KEY="x" * 40, WANDB_BASE_URL="http://127.0.0.1:9")
    began = time.monotonic()
    done = bench("run", "small.yaml", "--track", "wandb", cwd=tmp_path, env=nobody)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 150
    assert "Two small ones" in done.stdout
    assert "bench sync small" in done.stdout
    assert all(a.record.status == "done" for a in Store(tmp_path / "bench-store").scan().values())


def test_unknown_trackers_are_named(tmp_path: Path) -> None:
    done = bench("run", "quickstart", "--track", "wandbe", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown tracker 'wandbe'; did you mean 'wandb'?" in done.stderr


def test_trackers_finish_when_the_study_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW, encoding="utf-8")
    parent = start_slow(tmp_path, "--track", "csv")
    wait_for_a_running_slow_run(tmp_path)
    os.killpg(parent.pid, signal.SIGINT)
    out, err = parent.communicate(timeout=60)
    assert parent.returncode == 130, out + err
    assert "go on with" in out
    assert "CSV: bench-store/csv/slow-smoke" in out
