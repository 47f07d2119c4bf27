"""Losses by name and the user's own, with class weights; a batch means the same in parts."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks import loss_names
from lightning_bench.models.tasks.losses import Loss, balanced

LOGITS = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
TARGET = torch.arange(12) % 3
LABELS = torch.rand(12, 3, generator=torch.Generator().manual_seed(1)).gt(0.6).float()


def loss(name: str, output: Tensor, target: Tensor, **settings: object) -> Tensor:
    made = Loss(name, **{"arguments": {}, **settings})  # type: ignore[arg-type]
    return made(output, target, training=True)  # type: ignore[no-any-return]


def test_cross_entropy_is_torchs() -> None:
    found = loss("cross-entropy", LOGITS, TARGET, label_smoothing=0.1)
    torch.testing.assert_close(found, F.cross_entropy(LOGITS, TARGET, label_smoothing=0.1))


def test_class_weights_count_examples_of_a_class_as_often() -> None:
    weights = [1.0, 2.0, 0.5]
    found = loss("cross-entropy", LOGITS, TARGET, weights=weights)
    each = F.cross_entropy(LOGITS, TARGET, reduction="none") * torch.tensor(weights)[TARGET]
    torch.testing.assert_close(found, each.mean())


@pytest.mark.parametrize("name", ["cross-entropy", "focal"])
def test_a_weighted_batch_is_the_mean_of_its_halves(name: str) -> None:
    made = Loss(name, arguments={}, weights=[1.0, 5.0, 0.2])
    whole = made(LOGITS, TARGET, training=True)
    halves = [made(LOGITS[i : i + 6], TARGET[i : i + 6], training=True) for i in (0, 6)]
    torch.testing.assert_close(whole, (halves[0] + halves[1]) / 2)


def test_focal_without_gamma_is_cross_entropy_and_with_it_lins() -> None:
    plain = loss("focal", LOGITS, TARGET, arguments={"gamma": 0.0})
    torch.testing.assert_close(plain, F.cross_entropy(LOGITS, TARGET))
    right = LOGITS.softmax(1)[torch.arange(12), TARGET]
    expected = (-((1 - right) ** 2) * right.log()).mean()
    torch.testing.assert_close(loss("focal", LOGITS, TARGET), expected)


def test_focal_of_several_labels_is_torchvisions() -> None:
    from torchvision.ops import sigmoid_focal_loss

    made = Loss("focal", arguments={}).of_labels()
    expected = sigmoid_focal_loss(LOGITS, LABELS, alpha=-1, gamma=2, reduction="mean")
    torch.testing.assert_close(made(LOGITS, LABELS, training=True), expected)


def test_binary_is_of_labels_and_of_each_class_against_the_rest() -> None:
    expected = F.binary_cross_entropy_with_logits(LOGITS, LABELS)
    torch.testing.assert_close(loss("binary", LOGITS, LABELS), expected)
    one_hot = F.one_hot(TARGET, 3).float()
    expected = F.binary_cross_entropy_with_logits(LOGITS, one_hot)
    torch.testing.assert_close(loss("binary", LOGITS, TARGET), expected)


@pytest.mark.parametrize(
    ("name", "torchs"), [("mse", F.mse_loss), ("mae", F.l1_loss), ("huber", F.huber_loss)]
)
def test_numbers_are_torchs(name: str, torchs: object) -> None:
    target = torch.randn(12)
    expected = torchs(LOGITS[:, 0], target)  # type: ignore[operator]
    torch.testing.assert_close(loss(name, LOGITS[:, :1], target), expected)


def test_balanced_classes_weigh_alike_and_the_mean_weight_is_one() -> None:
    target = torch.tensor([0] * 8 + [1] * 2)
    weights = torch.tensor(balanced(target, 2, labels=False))
    assert (weights[0] * 8).item() == pytest.approx((weights[1] * 2).item())
    assert weights[target].mean().item() == pytest.approx(1.0)
    labels = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert balanced(labels, 2, labels=True) == [3.0, 3.0]


def test_ones_own_loss_gets_its_arguments_and_the_weights_it_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_losses.py").write_text(
        "import torch.nn.functional as F\nfrom torch import nn\n"
        "def plain(output, target, power=1):\n"
        "    return F.cross_entropy(output, target) ** power\n"
        "def weighted(output, target, weights=None):\n"
        "    return F.cross_entropy(output, target, weights, reduction='none')\n"
        "class Module(nn.Module):\n"
        "    def __init__(self, power): super().__init__(); self.power = power\n"
        "    def forward(self, out, target): return F.cross_entropy(out, target)**self.power\n"
    )
    monkeypatch.chdir(tmp_path)
    expected = F.cross_entropy(LOGITS, TARGET) ** 2
    for name in ("plain", "Module"):
        found = loss(f"own_losses.py:{name}", LOGITS, TARGET, arguments={"power": 2})
        torch.testing.assert_close(found, expected)
    evaluated = Loss("own_losses.py:plain", arguments={})(LOGITS, TARGET, training=False)
    assert evaluated.shape == (12,)  # one number of a batch counts for each of its examples
    by_weight = loss("own_losses.py:weighted", LOGITS, TARGET, weights=[0.0, 1.0, 0.0])
    each = F.cross_entropy(LOGITS, TARGET, reduction="none")
    torch.testing.assert_close(by_weight, each[TARGET == 1].sum() / 12)
    with pytest.raises(ModelError, match="takes no `weights`"):
        loss("own_losses.py:plain", LOGITS, TARGET, weights=[1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "weights", "task", "says"),
    [
        ("mse", False, "classify", "the loss mse is not for classify, which has cross-entropy"),
        ("", True, "regress", "class_weights are of classes, and mse has none"),
        ("focal", False, "masked-lm", "the loss of masked-lm is its own"),
    ],
)
def test_what_does_not_fit_is_told(name: str, weights: bool, task: str, says: str) -> None:
    assert loss_names.unfit(name, weights, task).startswith(says)
    assert loss_names.problem("fokal", {}).startswith("there is no loss 'fokal'; did you mean")
    assert loss_names.problem("focal", {"gama": 1}).endswith("did you mean 'gamma'?")
