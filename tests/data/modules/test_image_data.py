"""Image data modules, over the catalogue: exact, deterministic, disjoint."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from lightning_bench.data import cache
from lightning_bench.data.batch import Batch
from lightning_bench.data.catalogue import find
from lightning_bench.data.errors import DataError
from lightning_bench.data.loader import EpochOrder
from lightning_bench.data.modules.image_data import ImageData, ImageLoader, check, fingerprint, load
from lightning_bench.data.sources import digits
from lightning_bench.data.sources.digits import Images
from lightning_bench.data.transforms.augment import Augmentation

REAL = ("cifar10", "pets")


@pytest.fixture(scope="module", params=["digits", "digits-28", "digits-inverted", *REAL])
def loaded(request: pytest.FixtureRequest) -> ImageData:
    if request.param in REAL:
        request.getfixturevalue("mirror")
    data = ImageData(request.param, batch_size=64, seed=3)
    data.setup()
    return data


def test_splits_are_as_large_as_promised_and_disjoint_by_content(loaded: ImageData) -> None:
    contents = {
        name: {image.tobytes() for image in images.pixels} for name, images in loaded.splits.items()
    }
    for name, images in loaded.splits.items():
        assert len(images.labels) == loaded.entry.splits[name]
        assert set(images.labels) == set(range(loaded.entry.classes))
        others = set().union(*(contents[other] for other in contents if other != name))
        # Pets' own train and test share a photograph twice, under two names.
        assert len(contents[name] & others) <= (2 if loaded.entry.name == "pets" else 0)


def test_the_training_split_is_normalised_by_its_own_numbers(loaded: ImageData) -> None:
    seen = torch.cat([batch.inputs[0] for batch in loaded.train_dataloader()])
    assert seen.mean((0, 2, 3)).tolist() == pytest.approx([0] * seen.shape[1], abs=5e-3)
    assert seen.std((0, 2, 3)).tolist() == pytest.approx([1] * seen.shape[1], abs=5e-3)
    train = loaded.splits["train"].pixels / 255
    assert loaded.mean.tolist() == pytest.approx(train.mean((0, 2, 3)).tolist(), abs=1e-6)
    assert loaded.std.tolist() == pytest.approx(train.std((0, 2, 3)).tolist(), abs=1e-6)


def test_the_fingerprint_names_the_content(loaded: ImageData) -> None:
    if loaded.entry.name not in REAL:
        assert fingerprint(loaded.splits) == loaded.fingerprint
    else:
        assert load(loaded.entry).verify()
    train = loaded.splits["train"]
    flipped = Images(train.pixels.copy(), train.labels)
    flipped.pixels[0, 0, 0, 0] ^= 1
    assert fingerprint({**loaded.splits, "train": flipped}) != fingerprint(loaded.splits)
    relabelled = Images(train.pixels, np.roll(train.labels, 1))
    assert fingerprint({**loaded.splits, "train": relabelled}) != fingerprint(loaded.splits)


def test_evaluation_yields_each_example_once_in_order(loaded: ImageData) -> None:
    for loader in (loaded.val_dataloader(), *loaded.test_dataloader()):
        batches = list(loader)
        assert len(batches) == len(loader)
        index = torch.cat([batch.indices for batch in batches])
        assert torch.equal(index, torch.arange(len(loader.target)))
        assert torch.equal(torch.cat([batch.target for batch in batches]), loader.target)


def test_training_drops_only_the_incomplete_batch(loaded: ImageData) -> None:
    loader = loaded.train_dataloader()
    batches = list(loader)
    assert len(batches) == len(loader) == len(loader.target) // 64
    assert {len(batch.target) for batch in batches} == {64}
    index = torch.cat([batch.indices for batch in batches])
    assert len(torch.unique(index)) == len(index)
    assert torch.equal(loader.target[index], torch.cat([batch.target for batch in batches]))


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_global_batch_is_augmented_the_same_on_any_number_of_ranks(
    loaded: ImageData, ranks: int
) -> None:
    augmentation = Augmentation(
        crop=2, flip=True, randaugment=9, erasing=0.5, mixup=0.4, cutmix=1.0
    )
    images = loaded.splits["val"]

    def first(rank: int, world_size: int, batch_size: int) -> Batch:
        order = EpochOrder(
            len(images.labels), seed=7, shuffle=True, rank=rank, world_size=world_size
        )
        order.set_epoch(2)
        loader = ImageLoader(
            torch.from_numpy(images.pixels),
            torch.from_numpy(images.labels),
            mean=loaded.mean,
            std=loaded.std,
            classes=loaded.entry.classes,
            augmentation=augmentation,
            batch_size=batch_size,
            order=order,
        )
        return next(iter(loader))

    alone = first(0, 1, 12)
    shares = [first(rank, ranks, 12) for rank in range(ranks)]
    for rank, share in enumerate(shares):
        assert torch.equal(share.indices, alone.indices[rank::ranks])
        assert torch.equal(share.inputs[0], alone.inputs[0][rank::ranks])
        assert torch.equal(share.target, alone.target[rank::ranks])


def test_cifar10_opens_again_without_decoding_and_in_place(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ImageData("cifar10", batch_size=64, seed=0).setup()
    monkeypatch.setattr("lightning_bench.data.modules.image_data.decode_all", None)
    started = time.perf_counter()
    again = ImageData("cifar10", batch_size=64, seed=0)
    again.setup()
    assert time.perf_counter() - started < 0.3
    assert isinstance(again.splits["train"].pixels, np.memmap)
    # The loader reads the mapped file itself, not a copy.
    address = again.train_dataloader().pixels.data_ptr()
    assert address == again.splits["train"].pixels.__array_interface__["data"][0]


def test_a_damaged_cache_is_noticed(mirror: Path) -> None:
    data = ImageData("pets", batch_size=64, seed=0)
    data.setup()
    bundle = load(data.entry)
    assert bundle.verify()
    path = bundle.folder / "val-pixels.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert not cache.Bundle(bundle.folder, bundle.facts).verify()
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("labels", "expected", "says"),
    [([0, 1], 3, "d/val: 2 examples, not 3"), ([0, 7], 2, "d/val, row 1: label 7 of 2")],
)
def test_a_split_that_is_not_as_promised_is_named(
    labels: list[int], expected: int, says: str
) -> None:
    images = Images(np.zeros((len(labels), 1, 8, 8), np.uint8), np.array(labels))
    with pytest.raises(DataError, match=says):
        check("d", "val", images, expected, classes=2)


def test_digits_as_mnist_lays_them_out_lose_nothing_in_shifts_of_four() -> None:
    pixels, labels = digits.digits_28()["train"]
    assert pixels.shape[1:] == (1, 28, 28)
    assert pixels.max() == 255
    assert not pixels[..., 24:].any()
    assert pixels[..., 23].any()
    assert np.array_equal(labels, digits.digits()["train"].labels)


def test_a_random_half_of_the_inverted_digits_is_black_on_white() -> None:
    plain, inverted = (of()["train"].pixels for of in (digits.digits, digits.digits_inverted))
    turned = (inverted != plain).any((1, 2, 3))
    assert 0.45 < turned.mean() < 0.55
    assert np.array_equal(inverted[turned], 16 - plain[turned])


def test_embedded_images_come_in_any_size() -> None:
    data = ImageData(find("digits-28", image_size=56), batch_size=8, seed=0)
    data.setup()
    small, large = digits.digits_28()["val"].pixels, data.splits["val"].pixels
    assert large.shape[1:] == (1, 56, 56)
    # Twice as large: the mean of 2×2 pixels is the pixel that stood there, but for rounding.
    halved = large.reshape(-1, 1, 28, 2, 28, 2).mean((3, 5))
    assert np.abs(halved - small).mean() < 8
