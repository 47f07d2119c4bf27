"""Killed at any step and gone on from there: the result is bit for bit the one left in peace."""

import random
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bench.bench.execute.job import EXIT_CODES, JobSpec
from lightning_bench.bench.run import training
from lightning_bench.bench.run.checkpoint import Checkpoints, read
from lightning_bench.bench.run.control import Control
from lightning_bench.bench.run.distributed import Rank
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store
from tests import factory
from tests.bench.processes import begin, order, run, wait_for, wait_until_left_alone

FORGETFUL = "tests.bench.misbehaving:forgetful"
TEXT = {"width": 16, "depth": 1, "hidden": 32, "dropout": 0.2}


def spec(model: str, data: str, args: dict[str, Any] | None = None, **recipe: Any) -> RunSpec:
    return factory.spec(model, data, args, {"epochs": 3, "batch_size": 50, "lr": 3e-3} | recipe)


SHARDED = spec(FORGETFUL, "digits", crop=1, ema=0.9, clip_norm=1.0, weight_decay=0.1)
CASES = {
    "images": (
        spec(FORGETFUL, "digits", crop=1, mixup=0.3, clip_norm=1.0, epochs=6), {}
    ),
    "averages": (spec("resnet-small", "digits", {"layers": 8, "width": 4}, ema=0.9), {}),
    "words": (spec("gmlp-text", "python-docs", TEXT, epochs=2, accumulate=2), {}),
    "ranks": (spec(FORGETFUL, "digits", crop=1), {"devices": 2}),
    "sharded": (SHARDED, {"devices": 2, "strategy": "fsdp"}),
}  # fmt: skip


def kill_at_random(given: JobSpec, kills: int, seed: int) -> tuple[Record, list[int]]:
    """Go on from kill to kill, then to the end; the record, and from which steps of an epoch."""
    draw, places = random.Random(seed), list[int]()
    for attempt in range(1, kills + 1):
        process, folder = begin(replace(given, attempt=attempt))
        wait_for(folder, "checkpoints/*.pt")
        # Mostly at once: a call of the loop soon takes all of so short an epoch.
        time.sleep(draw.choice((0.0, 0.0, 0.1)))
        process.kill()
        process.join()
        wait_until_left_alone(folder)
        if (folder / "record.json").exists():
            break
        left_off = read(max((folder / "checkpoints").glob("*.pt")))
        assert left_off is not None
        places.append(left_off["batch"])
    else:
        attempt = kills + 1
        run(replace(given, attempt=attempt))
    record = Store(given.store).scan()[given.spec.key].record
    assert record is not None
    return record, places


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_killed_at_random_steps_is_as_if_nothing_had_been(name: str, tmp_path: Path) -> None:
    of, changes = CASES[name]
    calm = run(order(tmp_path / "calm", of, **changes))
    given = order(tmp_path / "killed", of, **changes, checkpoint_s=0)
    record, places = kill_at_random(given, kills=3, seed=len(name))
    assert any(places), "never in the middle of an epoch"
    assert record.resumed_from == list(range(1, len(places) + 1))
    assert record.metrics == calm.metrics
    assert record.curve == calm.curve
    assert record.predictions == calm.predictions
    assert not list(given.store.rglob("checkpoints"))


@pytest.mark.parametrize("steps", [1, 5])
def test_how_many_steps_a_call_takes_changes_no_bit(steps: int) -> None:
    torch.set_num_threads(1)
    of = spec(FORGETFUL, "digits", epochs=4, mixup=0.2, warmup=0.2)
    outcomes = [
        training.train(of, device="cpu", on_epoch=lambda _: None, control=Control(most_steps=most))
        for most in (256, steps)
    ]
    one, other = outcomes
    assert one.curve == other.curve
    assert one.metrics == other.metrics
    for name, values in one.predictions.items():
        assert np.array_equal(values, other.predictions[name])


def stopped(given: JobSpec, process: Any, folder: Path) -> None:
    """Stop a run when it has begun its second epoch."""
    wait_for(folder, "curve.jsonl")
    Store(given.store).request(folder, "stop")
    process.join(60)
    assert not (folder / "record.json").exists()


def test_stopped_it_goes_on_and_the_cost_adds_up(tmp_path: Path) -> None:
    given = order(tmp_path, spec("tests.bench.misbehaving:slow", "digits", batch_size=100))
    process, folder = begin(given)
    stopped(given, process, folder)
    first = len((folder / "curve.jsonl").read_text(encoding="utf-8").splitlines())
    before = read(max((folder / "checkpoints").iterdir()))
    assert before is not None
    record = run(replace(given, attempt=2))
    assert record.resumed_from == [1]
    assert [epoch.epoch for epoch in record.curve] == [1, 2, 3]
    assert record.cost.total_s > before["total_s"] + 0.05 * 10 * (3 - first - 1)
    log = (Store(tmp_path).folder(given.spec.key, 2) / "log.txt").read_text(encoding="utf-8")
    assert "goes on from" in log
    again = Store(tmp_path).folder(given.spec.key, 2) / "curve.jsonl"
    assert len(again.read_text(encoding="utf-8").splitlines()) == 3
    assert not list(tmp_path.rglob("*.pt"))


def test_other_sources_start_afresh_and_the_log_says_why(tmp_path: Path) -> None:
    given = order(tmp_path, spec("tests.bench.misbehaving:slow", "digits", batch_size=200))
    process, folder = begin(given)
    stopped(given, process, folder)
    changed = {**given.sources, "models/tasks/steps.py": "0" * 12}
    record = run(replace(given, attempt=2, sources=changed))
    assert record.status == "done"
    assert record.resumed_from == []
    assert record.afresh == "attempt 1 was made with other models/tasks/steps.py"
    log = (Store(tmp_path).folder(given.spec.key, 2) / "log.txt").read_text(encoding="utf-8")
    assert "attempt 1 was made with other models/tasks/steps.py; this one starts afresh" in log


@pytest.mark.slow
def test_a_sharded_run_believes_no_checkpoint_without_all_its_parts(tmp_path: Path) -> None:
    calm = run(order(tmp_path / "calm", SHARDED, devices=2, strategy="fsdp"))
    given = order(tmp_path / "damaged", SHARDED, devices=2, strategy="fsdp", checkpoint_s=0)
    process, folder = begin(given)
    wait_for(folder, "curve.jsonl")
    process.kill()
    process.join()
    wait_until_left_alone(folder)
    older, newest = sorted((folder / "checkpoints").glob("*.pt"))
    parts = [read(path)["parts"] for path in (older, newest)]
    kept = {path.name for path in (folder / "checkpoints").glob("*.part")}
    assert kept >= {name for names in parts for name in names}
    # As if rank 1 had been killed while it wrote its part.
    damaged = folder / "checkpoints" / parts[1][1]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    record = run(replace(given, attempt=2))
    log = (Store(given.store).folder(given.spec.key, 2) / "log.txt").read_text(encoding="utf-8")
    assert f"attempt 1: {damaged.name} is damaged" in log
    assert f"goes on from {older.name} of attempt 1" in log
    assert (record.metrics, record.curve) == (calm.metrics, calm.curve)
    assert record.predictions == calm.predictions
    assert not list(given.store.rglob("checkpoints"))


@pytest.mark.slow
def test_other_ranks_start_a_sharded_run_afresh(tmp_path: Path) -> None:
    slow = spec("tests.bench.misbehaving:slow", "digits", batch_size=200)
    given = order(tmp_path, slow, devices=2, strategy="fsdp")
    process, folder = begin(given)
    stopped(given, process, folder)
    assert len(list((folder / "checkpoints").glob("*.part"))) >= 2
    record = run(replace(given, attempt=2, devices=1, strategy="ddp"))
    assert record.status == "done"
    assert record.resumed_from == []
    assert record.afresh == "attempt 1 was made with other devices, strategy"
    log = (Store(tmp_path).folder(given.spec.key, 2) / "log.txt").read_text(encoding="utf-8")
    assert f"{record.afresh}; this one starts afresh" in log


def wait_until_scored(folder: Path, batches: int) -> None:
    deadline = time.monotonic() + 120
    while (folder / "log.txt").read_text(encoding="utf-8").count("scoring") < batches:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"devices": 2}, {"devices": 2, "strategy": "fsdp"}],
    ids=["alone", "ranks", "sharded"],
)
def test_sigterm_in_validation_and_test_loses_nothing(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    slow = spec("tests.bench.misbehaving:slow_to_score", "digits", epochs=2)
    calm = run(order(tmp_path / "calm", slow, **changes))
    # Each validation and the test have 8 batches, of which two ranks have as many.
    given = order(tmp_path / "stopped", slow, **changes)
    for attempt, batches in ((1, 10), (2, 10)):
        given = replace(given, attempt=attempt, checkpoint_s=0 if attempt > 1 else 600)
        process, folder = begin(given)
        wait_for(folder, "log.txt")
        wait_until_scored(folder, batches)
        process.terminate()
        process.join(60)
        assert process.exitcode == EXIT_CODES["stopped"]
        wait_until_left_alone(folder)
        assert Store(given.store).scan()[slow.key].state == "interrupted"
        left_off = read(max((folder / "checkpoints").glob("*.pt")))
        assert left_off is not None
        # First in the second epoch's validation, its steps taken; then in the test.
        assert (left_off["epoch"], left_off["batch"]) == ((1, 21), (2, 0))[attempt - 1]
    record = run(replace(given, attempt=3))
    assert record.resumed_from == [1, 2]
    assert (record.metrics, record.curve) == (calm.metrics, calm.curve)
    log = Store(given.store).folder(slow.key, 3) / "log.txt"
    # No validation: the test alone, and what is scored after it of the training examples.
    assert log.read_text(encoding="utf-8").count("scoring") == 8 + 6


COMPILED = {
    "alone": (spec(FORGETFUL, "digits", epochs=6, crop=1, ema=0.9), {"compile": True}),
    "words": (
        spec("gmlp-text", "polarity", {**TEXT, "dropout": 0.0}, epochs=2),
        {"compile": True},
    ),
    "ranks": (spec(FORGETFUL, "digits", epochs=6), {"compile": True, "devices": 2}),
    "sharded": (
        spec("mlp", "digits", {"width": 32}),
        {"compile": True, "devices": 2, "strategy": "fsdp"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_run_is_as_an_eager_one_and_goes_on_bit_for_bit(
    name: str, tmp_path: Path
) -> None:
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to compile with")
    of, changes = COMPILED[name]
    eager = run(order(tmp_path / "eager", of, devices=changes.get("devices", 1)))
    calm = run(order(tmp_path / "calm", of, **changes))
    assert calm.provenance.compiled
    assert calm.scored == eager.scored
    # Dropout draws other numbers when it is compiled.
    assert calm.metrics["accuracy"] == pytest.approx(eager.metrics["accuracy"], abs=0.1)
    given = order(tmp_path / "killed", of, **changes, checkpoint_s=0)
    record, places = kill_at_random(given, kills=2, seed=1)
    assert any(places)
    assert (record.metrics, record.curve) == (calm.metrics, calm.curve)
    assert record.predictions == calm.predictions


def state(step: int) -> dict[str, Any]:
    return {"epoch": step // 10, "step": step, "weights": torch.full((100,), step)}


def test_the_last_two_are_kept_and_a_damaged_one_falls_back(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "checkpoints"
    made_with = {"device": "cpu"}
    ours = Checkpoints(folder, made_with)
    for step in (8, 9, 10, 11):
        ours.save(state(step))
    files = sorted(folder.iterdir())
    assert [name.name[:16] for name in files] == ["000001-000000010", "000001-000000011"]
    after = Checkpoints(tmp_path / "other", made_with, earlier=[(1, folder)])
    assert after.newest()[1]["step"] == 11
    whole = files[1].read_bytes()
    for damage in (whole[:-7], whole[:300] + b"?" + whole[301:], b""):
        files[1].write_bytes(damage)
        attempt, found = after.newest()
        assert (attempt, found["step"]) == (1, 10)
        assert torch.equal(found["weights"], torch.full((100,), 10))
        assert f"attempt 1: {files[1].name} is damaged" in capsys.readouterr().out
    files[0].write_bytes(b"")
    assert after.newest() is None
    after.delete()
    assert not folder.exists()


def test_the_newest_attempt_that_left_any_is_gone_on_from(tmp_path: Path) -> None:
    folders = [(number, tmp_path / str(number)) for number in (3, 2, 1)]
    for number, step in ((2, 7), (1, 5)):
        Checkpoints(tmp_path / str(number), {}).save(state(step))
    assert Checkpoints(tmp_path / "4", {}, earlier=folders).newest()[0] == 2
    assert Checkpoints(tmp_path / "4", {"device": "cuda"}, earlier=folders).newest() is None


def test_ranks_tell_each_other_where_a_checkpoint_is_and_each_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of its weights goes through the process group, let alone a GPU's memory."""
    folder = tmp_path / "1"
    Checkpoints(folder, {}).save(state(7))
    checkpoints = Checkpoints(tmp_path / "2", {}, earlier=[(1, folder)])
    sent: list[Any] = []

    def broadcast(objects: list[Any]) -> None:
        if sent:
            objects[:] = sent
        sent[:] = objects

    def gather(into: list[Any], one: Any) -> None:
        into[:] = [one] * len(into)

    monkeypatch.setattr(torch.distributed, "broadcast_object_list", broadcast)
    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    ranks = [Rank(index, world=2) for index in range(2)]
    first, second = (checkpoints.newest(rank) for rank in ranks)
    (path,) = folder.iterdir()
    assert sent == [(1, path)]
    assert first[1]["step"] == second[1]["step"] == 7
    assert torch.equal(second[1]["weights"], torch.full((100,), 7))


def test_what_can_t_be_written_costs_no_run(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "checkpoints").write_text("a file in its place", encoding="utf-8")
    Checkpoints(tmp_path / "checkpoints", {}).save(state(1))
    assert "no checkpoint could be written" in capsys.readouterr().out


@pytest.mark.parametrize(
    "of",
    [
        spec("mlp", "digits", {"width": 16}, epochs=2),
        spec("gmlp-text", "python-docs", TEXT, epochs=1),
        spec("gmlp-text", "polarity", TEXT, epochs=1),
    ],
    ids=lambda of: of.data.name,
)
def test_a_trial_has_no_test_split(of: RunSpec) -> None:
    shown: list[Any] = []
    trial = training.train(
        of.model_copy(update={"tested": False}),
        device="cpu",
        on_epoch=lambda _: None,
        on_data=shown.append,
    )
    assert trial.metrics == {}
    assert trial.predictions == {}
    assert trial.scored == trial.data.test == 0
    assert len(trial.curve) == of.recipe.epochs
    assert all(epoch.val_loss is not None for epoch in trial.curve)
    (data,) = shown
    assert data.sizes.keys() == data.splits.keys() == {"train", "val"}
    with pytest.raises(KeyError, match="test"):
        data.test_dataloader()
    tested = training.train(of, device="cpu", on_epoch=lambda _: None)
    assert tested.curve == trial.curve
    assert tested.data.fingerprint == trial.data.fingerprint
    assert tested.scored > 0
