"""Examples: small, true to the data, of the training split."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lightning_bench.data import previews
from lightning_bench.data.catalogue import find
from lightning_bench.data.modules.corpus import Corpus
from lightning_bench.data.modules.image_data import ImageData
from lightning_bench.data.modules.streamed_images import StreamedImages
from lightning_bench.data.modules.text_data import TextData


def opened(picture: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(picture.partition("base64,")[2])))


def test_each_class_of_digits_is_shown_by_its_own_images() -> None:
    data = ImageData("digits", batch_size=8, seed=0)
    data.setup()
    shown = data.examples()
    assert [example.label for example in shown] == [str(i) for i in range(10)]
    assert sum(len(example.picture) for example in shown) < 20_000
    train = data.splits["train"]
    for label, example in enumerate(shown):
        first = train.pixels[np.flatnonzero(train.labels == label)[0], 0]
        found = np.asarray(opened(example.picture))[:48:6, :48:6]
        assert (found == first * 15).all()  # six times as large, 16 is nearly white


def test_large_pictures_are_made_small_and_classes_are_named(mirror: Path) -> None:
    data = ImageData("pets", batch_size=8, seed=0)
    data.setup()
    shown = data.examples()
    assert len(shown) == previews.CLASSES
    assert shown[0].label == "abyssinian"
    assert {opened(example.picture).size for example in shown} == {(48 * 3 + 4, 48)}
    assert sum(len(example.picture) for example in shown) < 100_000


def test_photographs_that_are_not_kept_are_shown_too(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    source = mirror / "ILSVRC/imagenet-1k/data"
    folder = tmp_path / "ILSVRC/imagenet-1k/data"
    folder.mkdir(parents=True)
    for split in ("train", "validation"):
        (folder / f"{split}-0.parquet").symlink_to(next(source.glob("validation-*")))
    data = StreamedImages(find("imagenet1k"), batch_size=8, seed=0, sample=True, workers=0)
    data.setup()
    shown = data.examples()
    assert 0 < len(shown) <= previews.CLASSES
    assert all(example.label.startswith("n0") for example in shown[:5])
    assert opened(shown[0].picture).height == 48


def test_texts_are_shown_as_they_stood(mirror: Path, weights: Path) -> None:
    data = TextData("mrpc", batch_size=8, seed=0, sample=True)
    data.setup()
    shown = data.examples()
    assert [example.label for example in shown] == ["not_equivalent"] * 3 + ["equivalent"] * 3
    assert all(len(example.texts) == 2 for example in shown)
    assert any(letter.isupper() for letter in shown[0].texts[0])
    again = TextData("mrpc", batch_size=8, seed=0, sample=True)
    again.setup()  # from the cache this time
    assert again.examples() == shown


def test_a_corpus_shows_what_it_cuts_and_long_texts_are_cut() -> None:
    data = Corpus("python-docs", batch_size=8, seed=0)
    data.setup()
    assert all(0 < len(example.texts[0]) <= previews.LETTERS for example in data.examples())
    assert previews.text("x", ["a  b\nc", "d" * 999]).texts == ("a b c", "d" * 238 + " …")
