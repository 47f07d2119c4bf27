"""Classify: exact sums, whatever the batch sizes."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.data.batch import Batch
from lightning_bench.models.tasks.classify import Classify
from lightning_bench.models.tasks.collected_predictions import Predictions
from lightning_bench.models.tasks.optimisation import Optimisation


def make(x: Tensor, target: Tensor, index: Tensor | None = None) -> Batch:
    index = torch.arange(len(target)) if index is None else index
    return Batch((x,), target, index, len(target))


def train(task: Classify, batch: Batch) -> None:
    task.progress.loss_sum += task.batch_loss(batch).detach()
    task.progress.batch += 1


def batches(images: Tensor, target: Tensor, sizes: list[int]) -> list[Batch]:
    index = torch.arange(len(target))
    parts = zip(images.split(sizes), target.split(sizes), index.split(sizes), strict=True)
    return [make(x, y, i) for x, y, i in parts]


@pytest.fixture
def task() -> Classify:
    torch.manual_seed(0)
    return Classify(nn.Linear(5, 3), label_smoothing=0.0, optimisation=Optimisation())


@pytest.mark.parametrize("sizes", [[10], [7, 3], [1, 2, 3, 4]])
def test_metrics_weigh_examples_not_batches(task: Classify, sizes: list[int]) -> None:
    images, target = torch.randn(10, 5), torch.arange(10) % 3
    logits = task.model(images)
    task.on_train_epoch_start()
    train(task, make(images, target))
    for i, batch in enumerate(batches(images, target, sizes)):
        task.validation_step(batch, i)
        task.test_step(batch, i)
    expected = F.cross_entropy(logits, target).item()
    accuracy = (logits.argmax(-1) == target).float().mean().item()
    epoch = task.epoch_results()
    assert epoch == pytest.approx(
        {"train_loss": expected, "val_loss": expected, "accuracy": accuracy}
    )
    metrics, predictions = task.test_results()
    assert metrics.pop("macro_f1") <= 1  # of a test alone
    assert metrics == pytest.approx({"accuracy": accuracy, "loss": expected})
    assert torch.equal(predictions["predicted"], logits.argmax(-1))
    assert torch.equal(predictions["index"], torch.arange(10))


def test_an_epoch_starts_from_nothing(task: Classify) -> None:
    images, target = torch.randn(6, 5), torch.arange(6) % 3
    results = []
    for _ in range(2):
        task.on_train_epoch_start()
        train(task, make(images, target))
        task.validation_step(make(images, target), 0)
        results.append(task.epoch_results())
    assert results[0] == results[1]


def test_a_loss_that_is_no_number_is_seen(task: Classify) -> None:
    nn.init.constant_(task.model.weight, float("nan"))
    task.on_train_epoch_start()
    train(task, make(torch.ones(2, 5), torch.tensor([0, 1])))
    task.validation_step(make(torch.ones(2, 5), torch.tensor([0, 1])), 0)
    assert not torch.isfinite(torch.tensor(task.epoch_results()["train_loss"]))


def test_label_smoothing_is_for_training_only() -> None:
    smooth = Classify(nn.Linear(5, 3), label_smoothing=0.2, optimisation=Optimisation())
    batch = make(torch.randn(4, 5), torch.tensor([0, 1, 2, 0]))
    smooth.on_train_epoch_start()
    train(smooth, batch)
    smooth.validation_step(batch, 0)
    logits = smooth.model(*batch.inputs)
    results = smooth.epoch_results()
    assert results["val_loss"] == pytest.approx(F.cross_entropy(logits, batch.target).item())
    expected = F.cross_entropy(logits, batch.target, label_smoothing=0.2).item()
    assert results["train_loss"] == pytest.approx(expected)


def test_predictions_are_sorted_by_example() -> None:
    predictions = Predictions()
    predictions.update(torch.tensor([4, 0]), torch.tensor([1, 2]), torch.tensor([1, 1]))
    predictions.update(torch.tensor([2]), torch.tensor([0]), torch.tensor([0]))
    computed = predictions.compute()
    assert computed["index"].tolist() == [0, 2, 4]
    assert computed["target"].tolist() == [2, 0, 1]
    assert computed["predicted"].tolist() == [1, 0, 1]
