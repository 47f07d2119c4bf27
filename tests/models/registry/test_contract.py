"""`check` finds each way to break the contract, and passes what keeps it."""

from typing import Any

import pytest
import torch
from torch import nn

from lightning_bench.models.registry.contract import check

TEXT = "vocab_size: int = 100, length: int = 16, classes: int = 5"
IMAGE = "channels: int = 1, image_size: int = 8, classes: int = 5"


class Image(nn.Module):
    """A model that keeps the contract, to be broken."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Conv2d(channels, 4, 3)
        self.head = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean((2, 3)))


class ExtraLogit(Image):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(super().forward(x), (0, 1))


class LooksAtOthers(Image):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + x.mean()


class UnusedWeight(Image):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.unused = nn.Parameter(torch.zeros(3))


class Forgetful(Image):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.register_buffer("offset", torch.randn(classes), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.offset


class Float32Only(Image):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if y.dtype != torch.float32:
            raise TypeError("float32 only")
        return y


class Headless(Image):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.classifier, self.head = self.head, None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


class TwoHeads(Image):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.auxiliary = nn.Linear(4, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = self.features(x).mean((2, 3))
        return self.head(features) + self.auxiliary(features)


class Text(nn.Module):
    """Reads pads, and ignores the mask."""

    def __init__(self, vocab_size: int, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocab_size, 8)
        self.head = nn.Linear(8, classes)

    def forward(
        self,
        tokens: torch.Tensor,
        mask: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return self.head(self.words(tokens).mean(1))


def maker(kind: Any) -> Any:
    def make(*, channels: int = 1, image_size: int = 8, classes: int = 5) -> nn.Module:
        return kind(channels, classes)

    return make


good = maker(Image)
extra_logit = maker(ExtraLogit)
looks_at_others = maker(LooksAtOthers)
unused_weight = maker(UnusedWeight)
forgetful = maker(Forgetful)
float32_only = maker(Float32Only)
headless = maker(Headless)
two_heads = maker(TwoHeads)


def leaky_text(*, vocab_size: int = 100, length: int = 16, classes: int = 5) -> nn.Module:
    return Text(vocab_size, classes)


def no_defaults(*, channels: int, image_size: int = 8, classes: int = 5) -> nn.Module:
    return Image(channels, classes)


def neither(*, size: int = 3) -> nn.Module:
    return nn.Linear(size, size)


def failures(name: str) -> dict[str, str]:
    results = check(f"{__name__}:{name}")
    return {result.name: result.detail for result in results if result.status == "failed"}


@pytest.fixture(autouse=True)
def without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning_bench.models.registry import contract as module

    monkeypatch.delitem(module.CHECKS, "compiled")


@pytest.mark.parametrize("name", ["good", "no_defaults"])
def test_what_keeps_the_contract_passes(name: str) -> None:
    results = check(f"{__name__}:{name}")
    assert {result.status for result in results if result.name != "made"} <= {"passed", "skipped"}
    skipped = {result.name for result in results if result.status == "skipped"}
    assert skipped == {"pads", "segments", "words"}
    assert all(result.detail for result in results)


@pytest.mark.parametrize(
    ("name", "failed", "detail"),
    [
        ("extra_logit", "made", "gives 6 outputs an example, and the data has 5 classes"),
        ("looks_at_others", "independence", "not close"),
        ("unused_weight", "gradients", "unused gets no gradient"),
        ("forgetful", "state", "not close"),
        ("float32_only", "bf16", "float32 only"),
        ("headless", "head", "no head with weights"),
        ("two_heads", "head", "auxiliary.weight depends on the number of classes"),
        ("leaky_text", "pads", "pads leak"),
        ("neither", "made", "neither fails on images of 3×32×32: RuntimeError"),
        ("absent", "made", "has no 'absent'"),
    ],
)
def test_each_way_to_break_it_is_found(name: str, failed: str, detail: str) -> None:
    found = failures(name)
    assert failed in found
    import re

    assert re.search(detail, found[failed]), found[failed]
    assert "\n" not in found[failed]


@pytest.mark.slow
def test_the_compiler_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning_bench.models.registry import contract as module

    monkeypatch.setitem(module.CHECKS, "compiled", module.compiled)
    assert failures("good") == {}
