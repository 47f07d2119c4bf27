"""Metrics of class probabilities: against torchmetrics, scikit-learn, and by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from torch.nn import functional
from torchmetrics.functional import classification

from lightning_bench.bench.study.class_metrics import CLASS_METRICS
from lightning_bench.common.targets import NO_LABEL
from lightning_bench.models.tasks import probability_scores
from lightning_bench.models.tasks.class_probabilities import TOP, ClassProbabilities
from lightning_bench.models.tasks.probability_scores import SMALLEST, scores


def kept(logits: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
    """What a run keeps of these examples."""
    collected = ClassProbabilities()
    for start in range(0, len(logits), 7):  # by batch, in any order
        index = torch.arange(start, min(start + 7, len(logits))).flip(0)
        collected.add(index, logits[index])
    arrays = collected.gather(len(logits), torch.device("cpu"))
    found = {name: values.numpy() for name, values in arrays.items()}
    return found | {"target": target.numpy(), "predicted": logits.argmax(-1).numpy()}


@st.composite
def classified(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    classes, examples = draw(st.integers(2, 12)), draw(st.integers(2, 60))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    target = torch.randint(classes, (examples,), generator=generator)
    logits = draw(st.sampled_from([0.01, 1.0, 5.0, 30.0])) * torch.randn(
        examples, classes, generator=generator
    )
    logits[torch.arange(examples), target] += draw(st.floats(-1, 3))
    return logits, target


@settings(deadline=None, max_examples=60)
@given(classified())
def test_each_metric_agrees_with_an_independent_one(
    drawn: tuple[torch.Tensor, torch.Tensor],
) -> None:
    logits, target = drawn
    classes = logits.shape[1]
    arrays = kept(logits, target)
    found = scores(arrays)
    # float16 as it is kept, each row then made to sum to one.
    raw = torch.from_numpy(arrays["probabilities"]).double()
    p = raw / raw.sum(1, keepdim=True)
    clipped = torch.where(raw > 0, p, SMALLEST / raw.sum(1, keepdim=True))
    assert found["nll"] == pytest.approx(functional.nll_loss(clipped.log(), target).item())
    one_hot = functional.one_hot(target, classes)
    assert found["brier"] == pytest.approx(((p - one_hot) ** 2).sum(1).mean().item())
    wanted = classification.multiclass_f1_score(logits, target, classes, average="macro")
    assert found["macro_f1"] == pytest.approx(wanted.item(), abs=1e-6)
    labels = sorted({*target.tolist(), *arrays["predicted"].tolist()})
    assert found["macro_f1"] == pytest.approx(
        sklearn_metrics.f1_score(target, arrays["predicted"], labels=labels, average="macro")
    )
    areas = [
        sklearn_metrics.roc_auc_score(target == k, raw[:, k])
        for k in range(classes)
        if 0 < (target == k).sum() < len(target)
    ]
    assert found.get("auroc") == (pytest.approx(np.mean(areas)) if areas else None)
    if len(set(target.tolist())) == classes:
        of_all = classification.multiclass_auroc(raw, target, classes, average="macro")
        assert found["auroc"] == pytest.approx(of_all.item(), abs=1e-6)
    if classes > TOP:
        top = classification.multiclass_accuracy(logits, target, classes, top_k=5, average="micro")
        assert found["top5"] == pytest.approx(top.item(), abs=1e-6)
    else:
        assert "top5" not in found
    # Its bins know no edges from the other side, and single precision: so off the edges alone.
    confidence = p.max(1).values
    if ((confidence * 15) - (confidence * 15).round()).abs().min() > 1e-4:
        wanted = classification.multiclass_calibration_error(p, target, classes, n_bins=15)
        right = target.numpy() == arrays["predicted"]
        if (p.argmax(1).numpy() == arrays["predicted"]).all():
            assert found["ece"] == pytest.approx(wanted.item(), abs=1e-5)
        assert found["ece"] == pytest.approx(_by_definition(confidence.numpy(), right))


def _by_definition(confidence: np.ndarray, right: np.ndarray) -> float:
    """Guo et al. (2017), equation 3."""
    total = 0.0
    for m in range(1, 16):
        inside = (confidence > (m - 1) / 15) & (confidence <= m / 15)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return total


def test_the_names_are_those_that_a_page_may_ask_for() -> None:
    arrays = kept(torch.randn(40, 8), torch.arange(40) % 8)
    assert scores(arrays).keys() == CLASS_METRICS.keys()
    del arrays["probabilities"], arrays["likeliest"]
    named = {name for name, metric in CLASS_METRICS.items() if not metric.of_probabilities}
    assert scores(arrays).keys() == named


def test_by_hand() -> None:
    arrays = {
        "probabilities": np.array([[0.75, 0.25, 0], [0.5, 0.5, 0], [0, 0, 1]], np.float16),
        "predicted": np.array([0, 1, 2]),
        "target": np.array([0, 0, 1]),
    }
    found = scores(arrays)
    # What was rounded to nothing counts as float16's smallest.
    assert found["nll"] == pytest.approx(-(math.log(0.75) + math.log(0.5) - 24 * math.log(2)) / 3)
    assert found["brier"] == pytest.approx((2 * 0.25**2 + 2 * 0.5**2 + 2) / 3)
    assert found["ece"] == pytest.approx((0.25 + 0.5 + 1) / 3)
    # Class 0: both above; class 1: 0 below 0.25 and 0.5; class 2 has no example.
    assert found["auroc"] == pytest.approx((1 + 0) / 2)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 0 + 0) / 3)


@pytest.mark.parametrize("target", [[[0, 1], [1, NO_LABEL]], [0, NO_LABEL], [0, 5]])
def test_of_several_right_classes_or_unknown_ones_there_is_none(target: list[Any]) -> None:
    arrays = kept(torch.randn(2, 3), torch.tensor(target))
    assert not scores(arrays).keys() & {"nll", "brier", "ece", "auroc"}


def test_a_model_that_diverged_has_no_number_rather_than_a_wrong_one() -> None:
    logits = torch.randn(20, 4)
    logits[3] = math.nan
    found = scores(kept(logits, torch.arange(20) % 4))
    assert all(math.isnan(found[name]) for name in ("nll", "brier", "ece", "auroc"))


def test_many_classes_are_scored_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = kept(3 * torch.randn(101, 30), torch.arange(101) % 30)
    whole = scores(arrays)
    monkeypatch.setattr(probability_scores, "_CHUNK", 64)
    assert scores(arrays) == pytest.approx(whole, rel=1e-12)


def test_likeliest_classes_are_told_by_float32_where_float16_knows_them_apart_no_more() -> None:
    logits = torch.full((1, 50), -40.0)
    logits[0, 7] = 10.0
    logits[0, [30, 12, 45, 3]] = torch.tensor([-20.0, -21.0, -22.0, -23.0])
    arrays = kept(logits, torch.tensor([45]))
    assert np.count_nonzero(arrays["probabilities"]) == 1
    assert arrays["likeliest"].tolist() == [[7, 30, 12, 45, 3]]
    assert scores(arrays)["top5"] == 1.0


def test_likeliest_classes_are_told_where_their_probabilities_are_zero() -> None:
    logits = torch.tensor([[500.0, -9.0, -1.0, -5.0, -3.0, -7.0, -11.0]])
    assert logits.softmax(-1)[0, 1:].max() == 0
    assert kept(logits, torch.tensor([5]))["likeliest"].tolist() == [[0, 2, 4, 3, 5]]
