"""Several ranks train one run: two real processes, gloo, one result."""

import os
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from lightning_bench.bench.execute.job import EXIT_CODES, JobSpec
from lightning_bench.bench.run import distributed, fsdp, training, worker
from lightning_bench.bench.run.distributed import Rank, RankProcesses
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.store import WEIGHTS, Store
from tests import factory
from tests.bench.processes import begin, order, run, start, wait_for, wait_until_left_alone

TEXT = {"width": 16, "depth": 1, "hidden": 32}


def spec(model: str, data: str = "digits", args: dict[str, Any] | None = None, **recipe: Any):
    return factory.spec(model, data, args, {"epochs": 2, "batch_size": 60, "lr": 3e-3} | recipe)


def trained(of: RunSpec, folder: Path, rank: Rank, others: RankProcesses | None = None) -> None:
    """Train as one rank and write what it has; the first one starts the others."""
    torch.set_num_threads(1)
    made, make = [], training.make_task
    training.make_task = lambda *given, **named: made.append(make(*given, **named)) or made[-1]
    with rank.process_group("cpu", others.start if others else None):
        outcome = training.train(of, device="cpu", on_epoch=lambda _: None, rank=rank)
    weights = made[0].model.state_dict()
    torch.save({"weights": weights, "outcome": vars(outcome)}, folder / f"{rank.index}.pt")


def trained_on_ranks(of: RunSpec, folder: Path, world: int) -> None:
    with RankProcesses(world, partial(trained, of, folder)) as others:
        trained(of, folder, Rank(world=world), others)


def together(of: RunSpec, world: int, folder: Path) -> list[dict[str, Any]]:
    """What each of so many ranks has after training."""
    folder.mkdir()
    process = start(trained_on_ranks, of, folder, world)
    process.join(240)
    assert process.exitcode == 0
    for index in range(world):
        wait_for(folder, f"{index}.pt", timeout_s=10)
    paths = [folder / f"{index}.pt" for index in range(world)]
    return [torch.load(path, weights_only=False) for path in paths]


@pytest.mark.parametrize(
    ("affinity", "rank", "cores"),
    [
        (8, Rank(), 8),
        (8, Rank(world=4), 2),  # forks of one process share its host
        (2, Rank(world=4), 1),
        (8, Rank(world=4, nodes=2), 4),
        (3, Rank(world=4, cores=3), 3),  # a cluster that binds each task to its cores
        (16, Rank(world=4, cores=3), 4),  # one that doesn't
    ],
)
def test_ranks_share_the_cores_of_their_host(
    affinity: int, rank: Rank, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "usable_cores", lambda: affinity)
    assert rank.usable_cores == cores


CASES = [
    # Crops and mixes of the global batch; 359 examples of validation and test on two ranks.
    ("augmented", spec("lenet", crop=1, mixup=0.2, clip_norm=1.0), 2),
    # 50 examples on three ranks are 17, 17 and 16.
    ("uneven", spec("mlp", args={"width": 32}, batch_size=50), 3),
    # Batch norm must see the global batch; its parts too where the gradient is accumulated.
    ("norm", spec("resnet-small", args={"layers": 8, "width": 4}, accumulate=2), 2),
    # The mean is over masked tokens, of which each rank has another number.
    ("masked", spec("gmlp-text", "python-docs", TEXT, epochs=1, batch_size=64, accumulate=2), 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("of", "world"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_ranks_do_what_one_device_does(of: RunSpec, world: int, tmp_path: Path) -> None:
    alone = together(of, 1, tmp_path / "alone")[0]
    ranks = together(of, world, tmp_path / "ranks")
    assert len(ranks) == world
    for name, value in ranks[0]["weights"].items():
        assert all(torch.equal(value, other["weights"][name]) for other in ranks), name
        expected = alone["weights"][name]
        assert torch.allclose(value.float(), expected.float(), rtol=1e-3, atol=2e-4), name
    one = alone["outcome"]
    for many in (rank["outcome"] for rank in ranks):
        assert many["scored"] == one["scored"] == one["data"].test
        assert np.array_equal(many["predictions"]["index"], np.arange(one["scored"]))
        assert np.array_equal(many["predictions"]["target"], one["predictions"]["target"])
        # Class probabilities are the first rank's alone.
        here = one["metrics"] if many is ranks[0]["outcome"] else many["metrics"]
        expected_metrics = {name: one["metrics"][name] for name in here}
        assert many["metrics"] == pytest.approx(expected_metrics, abs=1e-2)
        assert many["metrics"]["loss"] == pytest.approx(one["metrics"]["loss"], rel=1e-4)
        for epoch, expected in zip(many["curve"], one["curve"], strict=True):
            assert epoch.step == expected.step
            assert epoch.train_loss == pytest.approx(expected.train_loss, rel=1e-4)
            assert epoch.val_loss == pytest.approx(expected.val_loss, rel=1e-4)


@pytest.mark.slow
def test_bf16_is_clipped_and_added_up_alone_and_on_ranks(tmp_path: Path) -> None:
    of = spec("lenet", precision="bf16", clip_norm=0.05, accumulate=2, optimizer="sgd", lr=0.2)

    def curve(name: str, devices: int = 1, **recipe: Any) -> list[float]:
        changed = of.model_copy(update={"recipe": of.recipe.model_copy(update=recipe)})
        record = run(order(tmp_path / name, changed, devices=devices))
        assert record.scored == 359
        return [loss for epoch in record.curve for loss in (epoch.train_loss, epoch.val_loss)]

    alone = curve("alone")
    assert curve("ranks", devices=2) == pytest.approx(alone, rel=1e-2)
    exact = curve("fp32", precision="fp32")
    assert alone != exact
    assert alone == pytest.approx(exact, rel=2e-2)
    assert alone != pytest.approx(curve("unclipped", clip_norm=None), rel=2e-2)


def test_a_run_on_two_ranks_leaves_one_record(tmp_path: Path) -> None:
    given = order(tmp_path, spec("mlp", args={"width": 16}), devices=2)
    record = run(given)
    assert record.status == "done"
    assert record.scored == record.data.test == 359
    assert record.provenance.devices == 2
    assert record.provenance.strategy == "ddp"
    assert record.cost.device_h == pytest.approx(record.cost.total_s * 2 / 3600)
    assert record.cost.train_examples_per_s > 0
    folder = Store(tmp_path).folder(given.spec.key, 1)
    assert (folder / "log-1.txt").is_file()
    assert not (folder / "checkpoints").exists()
    wait_until_left_alone(folder)


GMLP = {"patch": 2, "width": 16, "depth": 2, "hidden": 32}
SHARDED = {
    "adamw": spec("mlp", args={"width": 32}, clip_norm=1.0, weight_decay=0.5, ema=0.8),
    # The trust ratios are those of whole matrices.
    "lamb": spec("mlp", args={"width": 32}, optimizer="lamb", weight_decay=0.1, lr=0.03),
    "sgd": spec("resnet-small", args={"layers": 8, "width": 4}, optimizer="sgd", accumulate=2),
    "bf16": spec("lenet", precision="bf16", clip_norm=0.5),
    # The last batch of the 359 is one example, which one rank has alone.
    "uneven": spec("mlp", args={"width": 32}, batch_size=358, ema=0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARDED)
def test_a_sharded_model_is_trained_as_on_one_device(name: str, tmp_path: Path) -> None:
    of = SHARDED[name]
    alone = run(order(tmp_path / "alone", of))
    ranks = run(order(tmp_path / "ranks", of, devices=2, strategy="fsdp", keep_weights=True))
    assert ranks.provenance.strategy == "fsdp"
    assert ranks.scored == alone.scored
    rel = 1e-2 if name == "bf16" else 1e-4
    assert ranks.metrics["loss"] == pytest.approx(alone.metrics["loss"], rel=rel)
    for epoch, expected in zip(ranks.curve, alone.curve, strict=True):
        assert epoch.train_loss == pytest.approx(expected.train_loss, rel=rel)
        assert epoch.val_loss == pytest.approx(expected.val_loss, rel=rel)
    # What is kept is whole.
    kept = safetensors.torch.load_file(Store(tmp_path / "ranks").folder(of.key, 1) / WEIGHTS)
    assert sum(value.numel() for value in kept.values()) >= ranks.cost.parameters


@pytest.mark.slow
def test_probes_see_a_sharded_model_whole(tmp_path: Path) -> None:
    of = spec("gmlp", args=GMLP).model_copy(update={"probes": ("toeplitz", "receptive-field")})
    whole = run(order(tmp_path / "whole", of, devices=2))
    cut = run(order(tmp_path / "cut", of, devices=2, strategy="fsdp"))
    for epoch, expected in zip(cut.curve, whole.curve, strict=True):
        assert {"toeplitz", "field_box"} <= epoch.metrics.keys()
        assert epoch.metrics == pytest.approx(expected.metrics, rel=1e-3)


def test_a_sharded_model_s_units_are_the_least_that_are_large_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fsdp, "_UNIT", 100)
    block = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))  # 144 together, 72 each
    tied = nn.Linear(16, 16)
    again = nn.Linear(16, 16)
    again.weight = tied.weight
    model = nn.Sequential(nn.Embedding(50, 8), nn.ModuleList([block]), tied, again)
    assert fsdp.units(model) == [block]


@pytest.mark.slow
def test_one_rank_s_end_is_the_run_s_and_the_next_run_starts_clean(tmp_path: Path) -> None:
    expected = {
        "raises": ("code", "rank 1: RuntimeError: only here", "log-1.txt"),
        "killed": ("infrastructure", "rank 1 was killed by SIGKILL", "log-1.txt"),
        "out_of_memory": (
            "out-of-memory",
            "rank 1: OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
            "log-1.txt",
        ),
        "exits": ("infrastructure", "rank 1 exited with code 0", "log-1.txt"),
    }
    for name, (kind, message, log) in expected.items():
        given = order(tmp_path, spec(f"tests.bench.misbehaving:second_{name}"), devices=2)
        process, folder = begin(given)
        wait_for(folder, "log-1.txt")
        began = time.monotonic()
        process.join(60)
        assert time.monotonic() - began < 30, name
        assert process.exitcode == 0
        failure = Store(tmp_path).scan()[given.spec.key].record.failure
        assert (failure.kind, failure.message) == (kind, message)
        assert failure.log.endswith(log)
        wait_until_left_alone(folder)
    assert run(order(tmp_path, spec("mlp", args={"width": 16}), devices=2)).status == "done"


def on_a_cluster(given: JobSpec, rank: Rank) -> None:
    """What a launcher that starts all ranks does in each."""
    worker.main(given, rank)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "kind", "says"),
    [
        ("killed", "infrastructure", f"rank 1 on {socket.gethostname()} ended without a word"),
        ("raises", "code", "rank 1: RuntimeError: only here"),
    ],
)
def test_the_first_rank_hears_of_one_that_ended_on_another_host(
    how: str, kind: str, says: str, tmp_path: Path
) -> None:
    given = order(tmp_path, spec(f"tests.bench.misbehaving:second_{how}_first_waits"), devices=2)
    Store(tmp_path).prepare()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    first, second = (Rank(index, 2, index, port=port) for index in range(2))
    folder = Store(tmp_path).folder(given.spec.key, 1)
    processes = [start(on_a_cluster, given, rank) for rank in (first, second)]
    processes[1].join(120)
    began = time.monotonic()
    processes[0].join(60)
    assert time.monotonic() - began < 30
    failure = Store(tmp_path).scan()[given.spec.key].record.failure
    assert (failure.kind, failure.message) == (kind, says)
    wait_until_left_alone(folder)


@pytest.mark.slow
def test_both_ranks_die_with_the_first(tmp_path: Path) -> None:
    process, folder = begin(order(tmp_path, spec("tests.bench.misbehaving:slow"), devices=2))
    wait_for(folder, "curve.jsonl")
    process.kill()
    process.join()
    wait_until_left_alone(folder)
    assert not (folder / "record.json").exists()


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_request_ends_all_ranks_at_the_same_step(tmp_path: Path, devices: int) -> None:
    slow = spec("tests.bench.misbehaving:slow", epochs=50)
    given = order(tmp_path, slow, devices=devices)
    process, folder = begin(given)
    wait_for(folder, "curve.jsonl")
    Store(tmp_path).request(folder, "prune")
    process.join(30)
    assert process.exitcode == 0
    record = Store(tmp_path).scan()[slow.key].record
    assert record.status == "pruned"
    assert 0 < len(record.curve) < 50
    assert record.metrics == {}
    assert record.predictions is None
    assert record.cost.train_s > 0

    process, folder = begin(replace(given, attempt=2))
    wait_for(folder, "curve.jsonl")
    Store(tmp_path).request(folder, "stop")
    process.join(30)
    assert process.exitcode == EXIT_CODES["stopped"]
    assert not (folder / "record.json").exists()
    assert list((folder / "checkpoints").iterdir())
    wait_until_left_alone(folder)


def parents(folder: Path) -> None:
    """Each rank notes its parent."""

    def note(rank: Rank) -> None:
        (folder / str(rank.index)).write_text(f"{os.getppid()}")

    with RankProcesses(3, note) as others:
        others.start(Rank(world=3))
        (folder / "0").write_text(f"{os.getpid()}")


def test_the_other_ranks_are_forks_of_the_first_which_has_torch_imported(tmp_path: Path) -> None:
    process = start(parents, tmp_path)
    process.join(60)
    assert process.exitcode == 0
    first, *others = ((tmp_path / str(index)).read_text() for index in range(3))
    assert others == [first, first]


def test_a_first_rank_that_never_trains_leaves_no_other_behind(tmp_path: Path) -> None:
    given = order(tmp_path, spec("mlp", args={"width": 16}), devices=3)
    store = Store(tmp_path)
    store.prepare()
    with store.claim(given.spec, 1):
        process, _ = begin(given)
        process.join(60)  # it waits for its forks before it ends
    assert process.exitcode == EXIT_CODES["taken"]
