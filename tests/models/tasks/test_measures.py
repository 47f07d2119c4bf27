"""Metrics by name: the facts that are known without torch, and what is computed of a split."""

import inspect
from pathlib import Path

import pytest
import torch
import torchmetrics
from torch import Tensor
from torchmetrics import classification, regression

from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks.collected_predictions import Predictions
from lightning_bench.models.tasks.measures import Measure
from lightning_bench.models.tasks.metric_names import OF_CLASSES, OF_LABELS, OF_NUMBERS, parse

#: Directions that torchmetrics leaves open.
OPEN = {"KendallRankCorrCoef", "PearsonCorrCoef", "TweedieDevianceScore"}
OPEN |= {"NegativePredictiveValue", "Specificity"}


@pytest.mark.parametrize("name", OF_CLASSES)
def test_directions_and_tasks_of_classes_are_those_of_torchmetrics(name: str) -> None:
    of_classes = getattr(classification, f"Multiclass{name}")
    assert name in OPEN or of_classes.higher_is_better is OF_CLASSES[name]
    assert (name in OF_LABELS) == hasattr(classification, f"Multilabel{name}")


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_directions_of_numbers_are_those_of_torchmetrics(name: str) -> None:
    assert name in OPEN or getattr(regression, name).higher_is_better is OF_NUMBERS[name]


def a_split(task: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    if task == "regress":
        target = torch.randn(60, generator=generator).abs()
        return {"target": target, "predicted": target * 0.7 + 0.1}
    scores = torch.rand(60, 4, generator=generator)
    if task == "multilabel":
        target = torch.rand(60, 4, generator=generator).gt(0.5).long()
        return {"target": target, "predicted": scores.gt(0.5).long(), "scores": scores}
    scores = scores / scores.sum(1, keepdim=True)
    target = torch.randint(4, (60,), generator=generator)
    return {"target": target, "predicted": scores.argmax(1), "scores": scores}


NEEDS = {"FBetaScore": "beta=0.5, ", "MinkowskiDistance": "p=3"}
AVERAGED = {"F1Score", "FBetaScore", "Precision", "Recall"}


@pytest.mark.parametrize("task", ["classify", "multilabel", "regress"])
def test_every_name_gives_a_number(task: str) -> None:
    names = {"classify": OF_CLASSES, "multilabel": OF_LABELS, "regress": OF_NUMBERS}[task]
    for name in names:
        inside = NEEDS.get(name, "") + ("average=macro" if name in AVERAGED else "")
        outputs = 1 if task == "regress" else 4
        measure = Measure(f"{name}({inside})", task=task, outputs=outputs)
        split = a_split(task)
        if name == "CosineSimilarity":
            split = {key: value[:, None] for key, value in split.items()}
        assert -10 < measure(split) < 100, name


def test_a_metric_is_of_the_whole_split_and_no_mean_over_batches() -> None:
    split = a_split("classify")
    measure = Measure("AUROC", task="classify", outputs=4)
    parts = [{key: value[i : i + 20] for key, value in split.items()} for i in (0, 20, 40)]
    expected = torchmetrics.AUROC("multiclass", num_classes=4)(split["scores"], split["target"])
    assert measure(split) == pytest.approx(expected.item())
    assert measure(split) != pytest.approx(sum(map(measure, parts)) / 3, abs=1e-4)
    assert measure(split) == measure(split)  # nothing is left over from the last time


def test_arguments_are_torchmetrics_own() -> None:
    split = a_split("classify")
    top2 = Measure("Accuracy(top_k=2, average=micro)", task="classify", outputs=4)(split)
    right = (split["scores"].topk(2).indices == split["target"][:, None]).any(1)
    assert top2 == pytest.approx(right.double().mean().item())
    with pytest.raises(ModelError, match=r"F1Score\(avrage=macro, average=micro\): "):
        Measure("F1Score(avrage=macro, average=micro)", task="classify", outputs=4)


def test_ones_own_gets_probabilities_if_it_asks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_metrics.py").write_text(
        "import torchmetrics\n"
        "def share(predictions, target, of=0):\n"
        "    return (predictions == of).float().mean()\n"
        "def sure(probabilities, target):\n"
        "    return probabilities.max(1).values.mean()\n"
        "def pair(predictions, target):\n"
        "    return predictions[:2]\n"
        "class Own(torchmetrics.MeanSquaredError): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    split = a_split("classify")
    share = Measure("own_metrics.py:share(of=2)", task="classify", outputs=4)
    sure = Measure("own_metrics.py:sure", task="classify", outputs=4)
    assert not share.of_probabilities
    assert sure.of_probabilities
    assert share(split) == pytest.approx((split["predicted"] == 2).double().mean().item())
    assert sure(split) == pytest.approx(split["scores"].max(1).values.mean().item())
    numbers = a_split("regress")
    error = Measure("own_metrics.py:Own", task="regress", outputs=1)(numbers)
    assert error == pytest.approx((numbers["predicted"] - numbers["target"]).square().mean().item())
    with pytest.raises(ModelError, match="is no single number but a tensor"):
        Measure("own_metrics.py:pair", task="classify", outputs=4)(split)
    with pytest.raises(ModelError, match="nothing to call"):
        Measure("own_metrics.py:shar", task="classify", outputs=4)


def test_what_is_scored_comes_out_in_the_splits_order() -> None:
    collected = Predictions(scored=True)
    for rows in ([2, 0], [1]):
        index = torch.tensor(rows)
        collected.update(index, index, index, scores=torch.eye(3)[index])
    assert torch.equal(collected.compute()["scores"], torch.eye(3))


@pytest.mark.parametrize("spelled", ["F1Score", "Acuracy", "AUROC(macro)", "AUROC(", ""])
def test_what_is_no_metric_is_told(spelled: str) -> None:
    with pytest.raises(ModelError):
        parse(spelled)


def test_no_metric_of_several_numbers_is_offered() -> None:
    assert "thresholds" in inspect.signature(torchmetrics.ROC.__new__).parameters
    assert not {"ROC", "ConfusionMatrix", "StatScores"} & {*OF_CLASSES, *OF_NUMBERS}
