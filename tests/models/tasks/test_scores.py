"""The metrics against scikit-learn's and scipy's, and the tasks that use them."""

import math

import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from sklearn import metrics
from torch import nn

from lightning_bench.data.batch import Batch
from lightning_bench.models.tasks.classify import Classify
from lightning_bench.models.tasks.masked_lm import MaskedLM
from lightning_bench.models.tasks.optimisation import Optimisation
from lightning_bench.models.tasks.regress import Regress
from lightning_bench.models.tasks.scores import score


@pytest.mark.parametrize("seed", range(5))
def test_glues_metrics_are_those_of_scikit_learn_and_scipy(seed: int) -> None:
    torch.manual_seed(seed)
    target = torch.randint(2, (200,))
    predicted = torch.where(torch.rand(200) < 0.7, target, torch.randint(2, (200,)))
    found = score(["accuracy", "f1", "matthews"], {"predicted": predicted, "target": target})
    assert found == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(target, predicted),
            "f1": metrics.f1_score(target, predicted),
            "matthews": metrics.matthews_corrcoef(target, predicted),
        },
        abs=1e-6,
    )
    numbers = torch.randn(200).round(decimals=1)
    noisy = numbers + torch.randn(200)
    found = score(["pearson", "spearman"], {"predicted": noisy, "target": numbers})
    assert found["pearson"] == pytest.approx(stats.pearsonr(noisy, numbers)[0], abs=1e-6)
    assert found["spearman"] == pytest.approx(stats.spearmanr(noisy, numbers)[0], abs=1e-6)


def test_a_model_that_says_one_thing_has_no_correlation() -> None:
    same = {"predicted": torch.ones(4), "target": torch.arange(4.0)}
    assert score(["pearson", "spearman"], same) == {"pearson": 0, "spearman": 0}
    same = {"predicted": torch.ones(4).long(), "target": torch.tensor([0, 1, 1, 0])}
    assert score(["matthews"], same) == {"matthews": 0}


def test_real_counts_any_of_the_labels_and_leaves_out_images_without() -> None:
    target = torch.tensor([[3, 5], [2, 2], [-1, -1], [7, 7]])
    predicted = torch.tensor([5, 1, 4, 7])
    found = score(["accuracy"], {"predicted": predicted, "target": target})
    assert found["accuracy"] == pytest.approx(2 / 3)
    task = Classify(nn.Identity(), label_smoothing=0, optimisation=Optimisation())
    task.test_step(Batch((torch.eye(10)[predicted] * 9,), target, torch.arange(4), 4), 0)
    assert task.test_results()[0]["accuracy"] == pytest.approx(2 / 3)


def test_a_second_test_split_has_its_own_names() -> None:
    task = Classify(
        nn.Identity(),
        label_smoothing=0,
        optimisation=Optimisation(),
        tests=("test", "mismatched"),
    )
    for number, target in enumerate(([0, 1], [1, 1, 0])):
        logits = torch.eye(2)[torch.zeros(len(target)).long()]
        batch = Batch((logits,), torch.tensor(target), torch.arange(len(target)), len(target))
        task.test_step(batch, 0, number)
    found, predictions = task.test_results()
    assert found["accuracy"] == pytest.approx(1 / 2)
    assert found["accuracy_mismatched"] == pytest.approx(1 / 3)
    assert predictions["mismatched_index"].tolist() == [0, 1, 2]


def test_regression_is_squared_error() -> None:
    torch.manual_seed(0)
    task = Regress(nn.Linear(3, 1), optimisation=Optimisation(), metrics=("pearson", "spearman"))
    x, y = torch.randn(20, 3), torch.randn(20)
    expected = F.mse_loss(task.model(x)[:, 0], y)
    task.on_train_epoch_start()
    trained = task.batch_loss(Batch((x,), y, torch.arange(20), 20))
    assert trained.item() == pytest.approx(expected.item())
    with torch.no_grad():
        task.test_step(Batch((x,), y, torch.arange(20), 20), 0)
    found, predictions = task.test_results()
    assert found["loss"] == pytest.approx(expected.item())
    assert found["pearson"] == pytest.approx(
        stats.pearsonr(predictions["predicted"], predictions["target"])[0], abs=1e-6
    )


@pytest.mark.parametrize("sizes", [[6], [4, 2], [1, 2, 3]])
def test_perplexity_weighs_tokens_not_batches(sizes: list[int]) -> None:
    torch.manual_seed(0)
    logits, target = torch.randn(6, 9, 11), torch.randint(11, (6, 9))
    target[torch.rand(6, 9) < 0.8] = -100
    target[:, 0] = 3
    task = MaskedLM(nn.Identity(), optimisation=Optimisation(), metrics=("perplexity",))
    index = torch.arange(6)
    parts = zip(logits.split(sizes), target.split(sizes), index.split(sizes), strict=True)
    for i, (x, y, n) in enumerate(parts):
        task.test_step(Batch((x,), y, n, 6), i)
    found, predictions = task.test_results()
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
    assert found["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    right = (logits.argmax(-1) == target)[target != -100].double().mean().item()
    assert found["masked_accuracy"] == pytest.approx(right)
    assert predictions["index"].tolist() == list(range(6))
    task.on_train_epoch_start()
    assert task.batch_loss(Batch((logits,), target, index, 6)).item() == pytest.approx(
        loss.item(), rel=1e-5
    )
