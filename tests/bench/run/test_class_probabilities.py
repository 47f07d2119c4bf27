"""Class probabilities of a run: each example once from any number of ranks, kept and scored."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bench.bench.run.distributed import Rank, RankProcesses
from lightning_bench.bench.run.result import save_arrays, split_arrays
from lightning_bench.bench.run.training import train
from lightning_bench.bench.store import predictions
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import PREDICTIONS, PROBABILITIES, Store
from lightning_bench.bench.study import class_metrics
from lightning_bench.bench.study.class_metrics import CLASS_METRICS
from lightning_bench.data import catalogue
from lightning_bench.models.tasks import class_probabilities
from lightning_bench.models.tasks.class_probabilities import ClassProbabilities
from tests import factory
from tests.bench.processes import order, run, start

#: Which examples are whose: not as many each, in no order, and none at all of the last rank.
SHARES = ([4, 0, 9, 2], [8, 1, 7, 3, 6, 5, 10], [])


def logits() -> torch.Tensor:
    return torch.randn(11, 8, generator=torch.Generator().manual_seed(0)) * 4


def gathered(folder: Path, rank: Rank, others: RankProcesses | None = None) -> None:
    """Gather as one rank what it has of the examples."""
    class_probabilities.CHUNK_BYTES = 24  # no whole number of rows
    with rank.process_group("cpu", others.start if others else None):
        collected = ClassProbabilities()
        for index in SHARES[rank.index]:
            collected.add(torch.tensor([index]), logits()[[index]])
        torch.save(collected.gather(11, torch.device("cpu")), folder / f"{rank.index}.pt")


def gathered_on_ranks(folder: Path) -> None:
    with RankProcesses(len(SHARES), partial(gathered, folder)) as others:
        gathered(folder, Rank(world=len(SHARES)), others)


def test_ranks_have_each_example_once_and_bit_for_bit(tmp_path: Path) -> None:
    process = start(gathered_on_ranks, tmp_path)
    process.join(120)
    assert process.exitcode == 0
    first, *others = [torch.load(tmp_path / f"{rank}.pt") for rank in range(len(SHARES))]
    assert others == [{}, {}]
    alone = ClassProbabilities()
    alone.add(torch.arange(11), logits())
    wanted = alone.gather(11, torch.device("cpu"))
    assert first.keys() == wanted.keys() == {"probabilities", "likeliest"}
    assert all(torch.equal(first[name], wanted[name]) for name in wanted)
    assert first["probabilities"].dtype == torch.float16


def made(tmp_path: Path, name: str, of: Any, **changes: Any) -> tuple[Record, Path]:
    record = run(order(tmp_path / name, of, **changes))
    assert record.status == "done", record.failure
    return record, Store(tmp_path / name).folder(record.key, 1)


def test_a_run_of_two_ranks_keeps_what_one_rank_keeps(tmp_path: Path) -> None:
    # 359 examples of the test: 180 and 179.
    of = factory.spec("lenet", "digits", {}, {"epochs": 2, "batch_size": 60, "lr": 3e-3})
    one, folder = made(tmp_path, "one", of)
    two, other = made(tmp_path, "two", of, devices=2)
    assert one.probabilities == hashlib.sha256((folder / PROBABILITIES).read_bytes()).hexdigest()
    assert two.probabilities
    a = predictions.read_probabilities(folder, one.probabilities)
    b = predictions.read_probabilities(other, two.probabilities)
    assert a.keys() == b.keys() == {"probabilities", "likeliest", "reliability"}
    assert a["probabilities"].shape == b["probabilities"].shape == (359, 10)
    assert a["probabilities"].dtype == np.float16
    assert np.allclose(a["probabilities"], b["probabilities"], atol=2e-3)
    assert np.allclose(b["probabilities"].sum(1), 1, atol=2e-3)
    assert a["reliability"][:, 0].sum() == 359
    known = {"accuracy", "loss", "accuracy_train", "loss_train", *CLASS_METRICS}
    assert one.metrics.keys() == two.metrics.keys() == known
    for metric in CLASS_METRICS:
        assert one.metrics[metric] == pytest.approx(two.metrics[metric], abs=1e-3)
    # The loss is the likelihood before it was rounded.
    assert one.metrics["nll"] == pytest.approx(one.metrics["loss"], rel=1e-3)


def test_labels_alone_leave_the_same_run_as_ever(tmp_path: Path) -> None:
    of = factory.spec("mlp", "digits", {}, {"epochs": 1})
    whole, folder = made(tmp_path, "whole", of)
    labels, other = made(tmp_path, "labels", of, keep_probabilities=False)
    assert labels.probabilities is None
    assert not (other / PROBABILITIES).exists()
    assert labels.key == whole.key
    assert labels.predictions == whole.predictions
    assert (folder / PREDICTIONS).read_bytes() == (other / PREDICTIONS).read_bytes()
    assert labels.metrics == {
        name: value
        for name, value in whole.metrics.items()
        if name in {"accuracy", "loss", "accuracy_train", "loss_train", "macro_f1"}
    }


def test_of_too_many_classes_the_likeliest_are_kept_and_the_record_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_metrics, "MOST_BYTES", 7_000)  # 359 × 10 × 2 are 7,180
    of = factory.spec("mlp", "digits", {}, {"epochs": 1})
    outcome = train(of, device="cpu", on_epoch=lambda _: None)
    assert outcome.too_many_probabilities.startswith("10 classes of all test examples are")
    _, by_class = split_arrays(outcome.predictions)
    assert by_class.keys() == {"likeliest"}
    trained = {"accuracy_train", "loss_train"}
    assert outcome.metrics.keys() == {"accuracy", "loss", "top5", "macro_f1", *trained}
    digest = save_arrays(tmp_path / PROBABILITIES, by_class)
    assert predictions.read_probabilities(tmp_path, digest)["likeliest"].shape == (359, 5)


@pytest.mark.parametrize("data", ["stsb", "wikitext2", "wikitext2-pairs"])
def test_other_tasks_keep_none(data: str) -> None:
    dataset = catalogue.find(data)
    assert class_metrics.tests_kept(dataset) == []
    assert class_metrics.shown(CLASS_METRICS, dataset) == []
