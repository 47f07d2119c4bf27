"""Whole runs that start from the weights of others."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from lightning_bench.bench.run.checkpoint import Checkpoints
from lightning_bench.bench.run.control import Control, Stopped
from lightning_bench.bench.run.initial_weights import WeightsFile
from lightning_bench.bench.run.loading import DataProblem
from lightning_bench.bench.run.training import Outcome, train
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.store import Store
from lightning_bench.models.errors import ModelError
from tests import factory
from tests.commands import TESTS_IMPORTABLE, bench
from tests.mirror import DATA, MODELS

MIXER = {"patch": 4, "width": 8, "depth": 2, "token_width": 8, "channel_width": 8}


def spec(**changes: Any) -> RunSpec:
    recipe = {"epochs": 2, "lr": 3e-3} | changes.pop("recipe", {})
    values = {"model": "mixer", "args": MIXER, "recipe": recipe}
    return factory.spec(**(values | changes))


def run(of: RunSpec, **options: Any) -> Outcome:
    return train(of, device="cpu", on_epoch=lambda _: None, **options)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A trained model, and a file of its weights."""
    outcome = run(spec(), keep_weights=True)
    assert outcome.weights is not None
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    safetensors.torch.save_file(outcome.weights, path)
    return outcome, path


def test_no_epoch_scores_the_weights_as_they_are(weights: tuple[Outcome, Path]) -> None:
    before, path = weights
    scored = run(spec(weights=str(path), recipe={"epochs": 0}))
    tested = {name: x for name, x in before.metrics.items() if not name.endswith("_train")}
    assert scored.metrics == tested  # without training there are no training examples
    assert not scored.curve
    assert scored.start is not None
    assert (scored.start.weights, scored.start.fresh) == (str(path), 0)
    assert scored.start.taken == before.parameters
    assert re.fullmatch("[0-9a-f]{64}", scored.start.weights_sha256)


def test_a_linear_probe_moves_the_head_alone(weights: tuple[Outcome, Path]) -> None:
    before, path = weights
    probe = run(spec(weights=str(path), recipe={"freeze": True, "lr": 0.1}), keep_weights=True)
    assert probe.trainable_parameters == 8 * 10 + 10
    assert before.weights is not None
    assert probe.weights is not None
    moved = {k for k, v in probe.weights.items() if not torch.equal(v, before.weights[k])}
    assert moved == {"head.weight", "head.bias"}


def test_another_model_s_weights_are_an_error(weights: tuple[Outcome, Path]) -> None:
    with pytest.raises(ModelError, match="and LeNet have no weights in common"):
        run(spec(weights=str(weights[1]), model="lenet", args={}))


def test_damaged_weights_are_noticed(weights: tuple[Outcome, Path]) -> None:
    child = spec(start=spec())
    with pytest.raises(DataProblem, match="the weights of run k, attempt 1 are damaged"):
        run(child, find_weights=lambda _: WeightsFile(weights[1], "k", 1, expected="0" * 64))


@pytest.mark.parametrize("probes", [("toeplitz",)])
def test_going_on_after_a_stop_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probes: tuple[str, ...]
) -> None:
    """Averages, layer-wise rates, LAMB and probes, in the middle of an epoch."""
    recipe = {"ema": 0.9, "layer_decay": 0.5, "optimizer": "lamb", "batch_size": 32, "epochs": 3}
    of = spec(recipe=recipe, probes=probes)
    whole = run(of, keep_weights=True)

    # Asked after every call of the loop, however fast the machine is.
    monkeypatch.setattr("lightning_bench.bench.run.control._LOOK_S", 0.0)
    asked = []

    def stop_later() -> Any:
        asked.append(1)
        return "stop" if len(asked) > 5 else None

    folders = [tmp_path / "1", tmp_path / "2"]
    for folder in folders:
        folder.mkdir()
    first = Control(
        request=stop_later,
        checkpoints=Checkpoints(folders[0] / "c", {}),
        most_steps=9,
    )
    with pytest.raises(Stopped):
        run(of, control=first)
    second = Control(checkpoints=Checkpoints(folders[1] / "c", {}, [(1, folders[0] / "c")]))
    resumed = run(of, control=second, keep_weights=True)
    assert resumed.resumed_from == [1]
    assert resumed.curve == whole.curve
    assert resumed.metrics == whole.metrics
    assert resumed.metrics["toeplitz"] == resumed.curve[-1].metrics["toeplitz"]
    assert whole.weights is not None
    assert resumed.weights is not None
    assert all(torch.equal(resumed.weights[k], v) for k, v in whole.weights.items())


MODEL = {"model": "mixer", "args": MIXER, "start": "first"}
PAGE = factory.study_page(
    stages={"first": {"data": "digits", "recipe": {"epochs": 2, "lr": 3e-3}}},
    entries={"Mixer": MODEL, "Probe": MODEL | {"recipe": {"freeze": True}}},
    recipe={"epochs": 1, "ema": 0.9},
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("started")
    (folder / "started.yaml").write_text(PAGE, encoding="utf-8")
    done = bench("run", "started.yaml", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def records(folder: Path) -> dict[str, Any]:
    """By what they are: `first`, `Mixer`, `Probe`."""
    found = {}
    for attempt in Store(folder / "bench-store").scan().values():
        assert attempt.record is not None
        recipe = attempt.record.spec.recipe
        started = attempt.record.spec.start is not None
        found["Probe" if recipe.freeze else "Mixer" if started else "first"] = attempt
    return found


def test_a_stage_is_trained_once_and_the_lineage_kept(finished: Path) -> None:
    found = records(finished)
    assert found.keys() == {"first", "Mixer", "Probe"}
    first = found["first"]
    assert not first.weights()
    for name in ("Mixer", "Probe"):
        start = found[name].record.start
        assert (start.key, start.attempt) == (first.key, 1)
        assert start.weights_sha256 == first.record.weights
        assert found[name].weights() == "gone"
    assert found["Probe"].record.cost.trainable_parameters == 90


def test_damaged_weights_are_made_again(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "copy")
    found = records(folder)
    with (found["first"].folder / "weights.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x55")
    (found["Probe"].folder / "record.json").unlink()
    done = bench("run", "started.yaml", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    again = records(folder)
    assert (again["first"].number, again["Probe"].number) == (2, 2)
    assert again["first"].record.weights == found["first"].record.weights
    assert again["Probe"].record.metrics == found["Probe"].record.metrics


def test_again_it_only_prints_and_lost_weights_are_not_missed(finished: Path) -> None:
    path = records(finished)["first"].folder / "weights.safetensors"
    aside = path.rename(path.with_suffix(".aside"))
    try:
        plan = bench("plan", "started.yaml", cwd=finished).stdout
        assert "3 runs: 3 done" in plan
        done = bench("reproduce", records(finished)["Probe"].key, cwd=finished)
        assert done.returncode == 2
        assert "are gone" in done.stderr
    finally:
        aside.rename(path)


def test_a_child_is_reproduced_bit_for_bit(finished: Path) -> None:
    done = bench("reproduce", records(finished)["Mixer"].key, cwd=finished)
    assert "equal bit for bit" in done.stdout, done.stdout + done.stderr


def test_two_ranks_start_from_the_same_weights(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "started.yaml").write_text(PAGE, encoding="utf-8")
    done = bench("run", "started.yaml", "--devices", "2", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    one, two = records(finished), records(tmp_path)
    for name, attempt in two.items():
        assert attempt.record.provenance.devices == 2
        assert attempt.record.metrics["loss"] == pytest.approx(
            one[name].record.metrics["loss"], rel=1e-4
        )
    assert two["Mixer"].record.start.weights_sha256 == two["first"].record.weights


BROKEN = """\
title: Broken
question: Which?
data: [digits]
stages:
  bad: {data: digits, model: "tests.bench.misbehaving:raises"}
entries:
  Child: {model: lenet, start: bad}
  Other: {model: lenet}
seeds: 1
recipe: {epochs: 1}
scales: {smoke: {}}
"""


def test_what_can_not_start_is_told_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    done = bench("run", "broken.yaml", cwd=tmp_path, env=TESTS_IMPORTABLE)
    assert done.returncode == 3
    assert "2 of 3 runs are not done" in done.stdout
    status = bench(
        "plan", "broken.yaml", "--format", "json", cwd=tmp_path, env=TESTS_IMPORTABLE
    ).stdout
    rows = {row["entry"]: row for row in json.loads(status)}
    assert rows["bad"]["state"] == rows["Child"]["state"] == "failed"
    assert "can't start: bad failed (code: RuntimeError" in rows["Child"]["reason"]
    assert rows["Other"]["state"] == "done"
    assert len(Store(tmp_path / "bench-store").scan()) == 2
    again = bench("run", "broken.yaml", cwd=tmp_path, env=TESTS_IMPORTABLE)
    assert again.returncode == 3
    assert "to do" not in again.stdout


@pytest.mark.slow
def test_published_weights_score_the_same_however_the_study_normalises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MobileNetV2 has 66.4 % on 500 images; inputs of another scale cost it ten points."""
    if DATA is None or MODELS is None:
        pytest.skip("no mirror: set BENCH_DATA and BENCH_MODELS")
    monkeypatch.setenv("BENCH_DATA", str(DATA))
    monkeypatch.setenv("BENCH_MODELS", str(MODELS))
    found = []
    for own in ({}, {"mean": [0.5] * 3, "std": [0.5] * 3}):
        data = {"name": "imagenet1k", "sample": True, **own}
        scored = factory.spec(
            "timm/mobilenetv2_100",
            data,
            {},
            {"epochs": 0, "batch_size": 50},
            weights="timm/mobilenetv2_100.tv_in1k",
        )
        outcome = run(scored)
        assert outcome.data.preprocessing.startswith("mean 0.485 0.456 0.406, std 0.229")
        found.append(outcome.metrics["accuracy"])
    assert found == [pytest.approx(0.664, abs=0.003)] * 2
    assert found[0] == found[1]
