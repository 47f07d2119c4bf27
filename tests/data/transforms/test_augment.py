"""Batched augmentation: equal in distribution to torchvision's, one image at a time."""

import numpy as np
import pytest
import torch
from scipy import stats
from torchvision.transforms import v2

from lightning_bench.data.loader import generator
from lightning_bench.data.transforms import randaugment
from lightning_bench.data.transforms.augment import (
    Augmentation,
    alter,
    draw,
    erase,
    mix,
    mixed_targets,
)

SIZE = (32, 32)


def seeded(number: int = 0) -> torch.Generator:
    return generator(5, number)


def test_crop_and_flip_are_as_frequent_as_torchvisions() -> None:
    torch.manual_seed(0)
    image = torch.randint(0, 256, (1, 6, 6), dtype=torch.uint8)
    usual = v2.Compose([v2.RandomCrop(6, padding=1), v2.RandomHorizontalFlip()])
    settings = Augmentation(crop=1, flip=True)
    count = 9000
    ours = alter(
        image.expand(count, 1, 6, 6).clone(),
        draw(settings, count, (6, 6), seeded()).rows(),
        settings,
    )
    theirs = torch.stack([usual(image) for _ in range(count)])
    kinds, counted = np.unique(
        np.concatenate([ours, theirs]).reshape(2 * count, -1), axis=0, return_inverse=True
    )
    assert len(kinds) == 3 * 3 * 2  # all of them, and nothing else
    table = [np.bincount(part, minlength=len(kinds)) for part in np.split(counted.ravel(), 2)]
    assert stats.chi2_contingency(table).pvalue > 1e-3


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("magnitude", [5, 9])
def test_each_operation_is_torchvisions(
    channels: int, magnitude: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    images = torch.randint(0, 256, (3, channels, *SIZE), dtype=torch.uint8)
    space = v2.RandAugment._AUGMENTATION_SPACE
    assert len(space) == len(randaugment.OPERATIONS)
    for number, (name, (magnitudes, signed)) in enumerate(space.items()):
        # With 31 bins a magnitude of m is m / 30 of the range, as the paper has it.
        usual = v2.RandAugment(num_ops=1, magnitude=magnitude, num_magnitude_bins=31)
        monkeypatch.setattr(usual, "_AUGMENTATION_SPACE", {name: (magnitudes, signed)})
        possible = torch.stack([usual(image) for image in images for _ in range(12)]).int()
        for sign in (-1, 1) if signed else (1,):
            signs = torch.full((3, 1), sign)
            ours = randaugment.apply(
                images.clone(),
                randaugment.groups(torch.full((3, 1), number), signs),
                magnitude=magnitude,
            )
            for image in ours:
                off = (possible - image.int()).abs().flatten(1)
                nearest = off[off.sum(1).argmin()]
                # Colour and sharpness round another way in a few pixels, by one grey.
                assert nearest.max() <= 1, (name, sign)
                assert nearest.float().mean() < 0.01, (name, sign)


def test_operations_and_signs_are_uniform() -> None:
    drawn = draw(Augmentation(randaugment=9), 20_000, SIZE, seeded())
    for step in range(2):
        counts = torch.bincount(drawn.operations[:, step], minlength=14)
        assert stats.chisquare(counts).pvalue > 1e-3
    assert drawn.signs.float().mean().abs() < 0.03
    assert (drawn.operations[:, 0] == drawn.operations[:, 1]).float().mean() < 0.1


def test_erased_boxes_are_as_large_and_where_torchvisions_are() -> None:
    torch.manual_seed(0)
    usual, settings = v2.RandomErasing(p=0.5), Augmentation(erasing=0.5)
    count = 4000
    ours = erase(torch.ones(count, 1, *SIZE), draw(settings, count, SIZE, seeded()).erase)
    theirs = torch.stack([usual(torch.ones(1, *SIZE)) for _ in range(count)])
    for x in (ours, theirs):
        assert (x.sum((1, 2, 3)) < 1024).float().mean().item() == pytest.approx(0.5, abs=0.04)
    for measure in (
        lambda x: (1 - x).sum((1, 2, 3)),
        lambda x: (1 - x).amax(3).sum((1, 2)),  # height
        lambda x: (1 - x).amax(2).argmax(-1).flatten().float(),  # left
    ):
        assert stats.ks_2samp(measure(ours), measure(theirs)).pvalue > 1e-3


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.4, 0.0), (0.0, 1.0)])
def test_shares_are_as_torchvisions(mixup: float, cutmix: float) -> None:
    torch.manual_seed(0)
    settings = Augmentation(mixup=mixup, cutmix=cutmix)
    usual = v2.MixUp(alpha=mixup, num_classes=2) if mixup else v2.CutMix(num_classes=2)
    count = 2500
    drawn = draw(settings, count, SIZE, seeded())
    ours = mixed_targets(torch.zeros(count).long(), torch.ones(count).long(), drawn.share, 2)
    pair, labels = torch.zeros(2, 1, *SIZE), torch.tensor([0, 1])
    theirs = torch.stack([usual(pair, labels)[1][0] for _ in range(count)])
    assert torch.allclose(ours.sum(1), torch.ones(count))
    assert stats.ks_2samp(ours[:, 0], theirs[:, 0]).pvalue > 1e-3


def test_a_mixed_image_is_what_its_target_says() -> None:
    count = 500
    drawn = draw(Augmentation(mixup=0.4, cutmix=1.0), count, SIZE, seeded())
    mixed = mix(torch.ones(count, 3, *SIZE), torch.zeros(count, 3, *SIZE), drawn.rows())
    assert torch.allclose(mixed.mean((1, 2, 3)), drawn.share, atol=1e-5)
    pasted = ((mixed == 0) | (mixed == 1)).all(3).all(2).all(1)
    assert 0.4 < pasted.float().mean() < 0.6  # either, half of the time


def test_nothing_is_the_default() -> None:
    pixels = torch.randint(0, 256, (4, 3, *SIZE), dtype=torch.uint8)
    settings = Augmentation()
    altered = alter(pixels.clone(), draw(settings, 4, SIZE, seeded()).rows(), settings)
    assert torch.equal(altered, pixels)
