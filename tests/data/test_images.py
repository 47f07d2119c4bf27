"""Image data modules, over the catalogue: exact, deterministic, disjoint."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from data.catalogue import entries
from data.embedded import Images
from data.images import ImageData, check, fingerprint
from data.loader import Order
from data.split import by_class

NAMES = [name for name, entry in entries().items() if entry.source.startswith("embedded")]


@pytest.fixture(scope="module", params=NAMES)
def loaded(request: pytest.FixtureRequest) -> ImageData:
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
        assert contents[name].isdisjoint(others)


def test_the_training_split_is_normalised(loaded: ImageData) -> None:
    loader = loaded.train_dataloader()
    pixels = loader.inputs[0]
    assert pixels.mean().item() == pytest.approx(0, abs=1e-5)
    assert pixels.std().item() == pytest.approx(1, abs=1e-3)
    # The test split is scaled by the training split's numbers, not by its own.
    assert loaded.test_dataloader().inputs[0].mean().abs() > 1e-4


def test_the_fingerprint_names_the_content(loaded: ImageData) -> None:
    assert fingerprint(loaded.splits) == loaded.fingerprint
    train = loaded.splits["train"]
    flipped = Images(train.pixels.copy(), train.labels)
    flipped.pixels[0, 0, 0, 0] ^= 1
    assert fingerprint({**loaded.splits, "train": flipped}) != loaded.fingerprint
    relabelled = Images(train.pixels, np.roll(train.labels, 1))
    assert fingerprint({**loaded.splits, "train": relabelled}) != loaded.fingerprint


def test_evaluation_yields_each_example_once_in_order(loaded: ImageData) -> None:
    for loader in (loaded.val_dataloader(), loaded.test_dataloader()):
        batches = list(loader)
        assert len(batches) == len(loader)
        index = torch.cat([batch.index for batch in batches])
        assert torch.equal(index, torch.arange(len(loader.target)))
        assert torch.equal(torch.cat([batch.target for batch in batches]), loader.target)


def test_training_drops_only_the_incomplete_batch(loaded: ImageData) -> None:
    loader = loaded.train_dataloader()
    batches = list(loader)
    assert len(batches) == len(loader) == len(loader.target) // 64
    assert {len(batch.target) for batch in batches} == {64}
    index = torch.cat([batch.index for batch in batches])
    assert len(torch.unique(index)) == len(index)
    assert torch.equal(loader.target[index], torch.cat([batch.target for batch in batches]))


sizes = st.integers(1, 300)


@given(sizes, st.integers(0, 2**32 - 1), st.integers(0, 100))
def test_the_order_depends_on_seed_and_epoch_alone(size: int, seed: int, epoch: int) -> None:
    first = Order(size, seed=seed, shuffle=True)
    first.set_epoch(epoch)
    torch.manual_seed(0)
    again = Order(size, seed=seed, shuffle=True)
    again.set_epoch(epoch)
    assert torch.equal(first.indices(), again.indices())
    assert torch.equal(first.indices().sort().values, torch.arange(size))
    if size > 20:
        again.set_epoch(epoch + 1)
        assert not torch.equal(first.indices(), again.indices())


@given(sizes, st.integers(1, 8), st.booleans())
def test_ranks_share_the_examples_without_padding(size: int, ranks: int, shuffle: bool) -> None:
    orders = [
        Order(size, seed=1, shuffle=shuffle, rank=rank, world_size=ranks) for rank in range(ranks)
    ]
    together = torch.cat([order.indices() for order in orders])
    assert torch.equal(together.sort().values, torch.arange(size))


@given(st.integers(2, 16), st.integers(1, 4))
def test_a_global_batch_is_the_same_on_any_number_of_ranks(batch: int, ranks: int) -> None:
    alone = Order(200, seed=5, shuffle=True).indices()
    shares = [Order(200, seed=5, shuffle=True, rank=r, world_size=ranks) for r in range(ranks)]
    first = torch.cat([share.indices()[:batch] for share in shares])
    assert set(first.tolist()) == set(alone[: batch * ranks].tolist())


@given(st.integers(1, 5), st.integers(20, 60), st.integers(0, 99))
def test_splits_take_their_share_of_each_class(classes: int, each: int, seed: int) -> None:
    labels = np.repeat(np.arange(classes), each)
    kept, carved = by_class(labels, fraction=0.25, seed=seed)
    assert sorted([*kept, *carved]) == list(range(len(labels)))
    assert np.bincount(labels[carved]).tolist() == [round(each / 4)] * classes
    again = by_class(labels, fraction=0.25, seed=seed)
    assert np.array_equal(again[1], carved)


@pytest.mark.parametrize(
    ("labels", "expected", "says"),
    [([0, 1], 3, "d/val: 2 examples, not 3"), ([0, 7], 2, "d/val, row 1: label 7 of 2")],
)
def test_a_split_that_is_not_as_promised_is_named(labels, expected: int, says: str) -> None:
    images = Images(np.zeros((len(labels), 1, 8, 8), np.uint8), np.array(labels))
    with pytest.raises(ValueError, match=says):
        check("d", "val", images, expected, classes=2)
