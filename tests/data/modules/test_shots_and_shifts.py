"""A few training examples of each class, and tests on images moved to the right."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from lightning_bench.data.catalogue import find
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules.corpus import Corpus
from lightning_bench.data.modules.image_data import ImageData, moved_right
from lightning_bench.data.modules.streamed_images import StreamedImages
from lightning_bench.data.modules.text_data import TextData
from lightning_bench.data.token_arrays import Texts


def images(seed: int = 0, **settings: int) -> ImageData:
    data = ImageData(find("digits", **settings), batch_size=50, seed=seed)
    data.setup()
    return data


def test_shots_are_so_many_of_each_class_out_of_the_training_split() -> None:
    few, all_ = images(shots=3), images()
    labels = few.splits["train"].labels
    assert Counter(labels.tolist()) == dict.fromkeys(range(10), 3)
    assert few.sizes == all_.sizes | {"train": 30}
    there = {image.tobytes() for image in all_.splits["train"].pixels}
    assert {image.tobytes() for image in few.splits["train"].pixels} <= there
    assert few.fingerprint != all_.fingerprint
    assert sum(len(batch.indices) for batch in few.train_dataloader()) == 30


def test_shots_are_drawn_by_the_seed_alone() -> None:
    one, again, other = images(shots=3), images(shots=3), images(seed=1, shots=3)
    assert np.array_equal(one.splits["train"].pixels, again.splits["train"].pixels)
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert np.array_equal(one.splits["test"].pixels, other.splits["test"].pixels)


def test_more_shots_than_there_are_is_an_error() -> None:
    with pytest.raises(DataError, match=r"digits: class . has 1.. training examples, too few for"):
        images(shots=200)


def test_shots_of_texts_keep_tokens_and_labels_together() -> None:
    few = TextData(find("polarity", shots=5), batch_size=10, seed=0)
    everything = TextData(find("polarity"), batch_size=10, seed=0)
    for data in (few, everything):
        data.setup()
    found, train = few.splits["train"], everything.splits["train"]
    assert Counter(found.labels.tolist()) == {0: 5, 1: 5}

    def texts(of: Texts) -> set[tuple[bytes, int, int]]:
        return {
            (of.tokens[of.starts[i] : of.starts[i + 1]].tobytes(), of.second[i], of.labels[i])
            for i in range(len(of.labels))
        }

    assert len(texts(found)) == 10
    assert texts(found) <= texts(train)
    assert [len(batch.indices) for batch in few.train_dataloader()] == [10]


def test_shots_of_pairs_of_a_corpus() -> None:
    data = Corpus(find("python-docs-nsp", shots=4), batch_size=8, seed=0)
    data.setup()
    assert data.sizes["train"] == 8


def test_moved_right_repeats_the_left_edge() -> None:
    rows = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=torch.uint8)[None, None]
    assert moved_right(rows, 0) is rows
    assert moved_right(rows, 1)[0, 0].tolist() == [[1, 1, 2, 3], [5, 5, 6, 7]]
    assert moved_right(rows, 3)[0, 0].tolist() == [[1, 1, 1, 1], [5, 5, 5, 5]]


def test_shifts_are_further_tests_on_the_same_examples() -> None:
    data = images(shifts=2)
    assert data.entry.tests == ("test", "shift1", "shift2")
    assert data.sizes["shift1"] == data.sizes["shift2"] == data.sizes["test"]
    plain, one, two = (list(loader) for loader in data.test_dataloader())
    for still, moved, further in zip(plain, one, two, strict=True):
        assert torch.equal(still.target, moved.target)
        assert torch.equal(still.indices, further.indices)
        assert torch.equal(moved.inputs[0][..., 1:], still.inputs[0][..., :-1])
        assert torch.equal(further.inputs[0][..., 2:], still.inputs[0][..., :-2])
        assert torch.equal(further.inputs[0][..., 1], still.inputs[0][..., 0])
    assert data.fingerprint == images().fingerprint


def test_neither_makes_another_run_stale() -> None:
    plain = find("digits").what_counts()
    assert find("digits", shots=2, shifts=3).what_counts() == plain
    assert not plain.keys() & {"shots", "shifts"}


def test_streamed_images_have_both(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for label in "ab":
        for split, count in (("train", 6), ("val", 2), ("test", 3)):
            folder = tmp_path / split / label
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = draw.integers(0, 255, (20, 20, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.png")
    entry = find(f"folder:{tmp_path}", image_size=16, shots=2, shifts=1)
    entry = replace(entry, mean=(0.5,) * 3, std=(0.25,) * 3)
    data = StreamedImages(entry, batch_size=4, seed=0, workers=0)
    data.setup()
    assert data.sizes == {"train": 4, "val": 4, "test": 6, "shift1": 6}
    plain, moved = (torch.cat([b.inputs[0] for b in loader]) for loader in data.test_dataloader())
    assert torch.equal(moved[..., 1:], plain[..., :-1])
    trial = StreamedImages(entry, batch_size=4, seed=0, workers=0)
    trial.setup("fit")
    assert trial.sizes == {"train": 4, "val": 4}
    assert trial.fingerprint == data.fingerprint
    with pytest.raises(KeyError, match="test"):
        trial.test_dataloader()
