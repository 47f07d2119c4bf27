"""Splits that the run's seed draws: which data sets have any, and what they hold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lightning_bench.data.catalogue import find
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules import contract
from lightning_bench.data.modules.contract import DataModule
from tests.data import tiny

IMAGES, TEXTS = 4, 60


def loaded(name: str, split: Any, seed: int, **options: Any) -> DataModule:
    entry = find(name, split=split)
    data = contract.make(entry, recipe=tiny.RECIPE, batch_size=4, seed=seed, **options)
    data.setup()
    return data


def examples(data: Any, name: str) -> set[bytes]:
    """The examples of a split, by their contents."""
    part = data.splits[name]
    if hasattr(part, "pixels"):
        return {image.tobytes() for image in part.pixels}
    return {part.tokens[a:b].tobytes() for a, b in zip(part.starts, part.starts[1:], strict=False)}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of images in three classes, all different, and one of texts."""
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    numbers = np.random.default_rng(0)
    for label in "abc":
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(20):
            pixels = numbers.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{i}.png")
    (tmp_path / "notes").mkdir()
    texts = [" ".join(map(str, numbers.integers(0, 50, 80))) for _ in range(TEXTS)]
    (tmp_path / "notes" / "all.txt").write_text("\n\n".join(texts), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", ["digits", "folder:photos", "text:notes"])
def test_seed_draws_test_and_validation_and_validation_that_alone(name: str, mine: Path) -> None:
    fixed = loaded(name, "fixed", 1)
    one, again, other = (loaded(name, "seed", seed) for seed in (1, 1, 2))
    assert one.fingerprint == again.fingerprint != other.fingerprint
    for part in ("train", "val", "test"):
        assert examples(one, part) == examples(again, part) != examples(other, part)
        assert one.sizes[part] == pytest.approx(other.sizes[part], rel=0.2)
    assert not examples(one, "test") & (examples(one, "train") | examples(one, "val"))
    # What the others' splits are made of is all there is.
    if not name.startswith("text:"):  # whose texts are cut into pieces, and read by other tokens
        whole = [set.union(*(examples(d, p) for p in d.splits)) for d in (fixed, one, other)]
        assert whole[0] == whole[1] == whole[2]
        validation = [loaded(name, "validation", seed) for seed in (1, 2)]
        assert all(examples(d, "test") == examples(fixed, "test") for d in validation)
        assert examples(validation[0], "val") != examples(validation[1], "val")


def test_the_fixed_split_is_seed_0_s_and_stays(mine: Path) -> None:
    for name in ("digits", "folder:photos"):
        fixed, drawn = loaded(name, "fixed", 7), loaded(name, "seed", 0)
        assert fixed.fingerprint == drawn.fingerprint
        assert fixed.fingerprint == loaded(name, "fixed", 8).fingerprint


def test_a_split_with_a_seed_of_its_own_leaves_the_rest_to_the_run_s() -> None:
    held = [loaded("digits", "seed", seed, source_seeds={"split": 5}) for seed in (1, 2)]
    assert held[0].fingerprint == held[1].fingerprint == loaded("digits", "seed", 5).fingerprint
    orders = [next(iter(data.train_dataloader())).indices.tolist() for data in held]
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("name", "split", "why"),
    [
        ("mnist", "seed", "the test split of mnist is official; `split: validation` draws"),
        ("polarity", "seed", "polarity comes with its splits"),
        ("wikitext2", "validation", "wikitext2 comes with its splits"),
    ],
)
def test_what_nobody_carved_is_not_drawn(name: str, split: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        find(name, split=split)


def test_a_folder_s_own_test_is_official(mine: Path) -> None:
    (mine / "photos").rename(mine / "train")
    (mine / "mine").mkdir()
    (mine / "train").rename(mine / "mine" / "train")
    for label in "abc":
        (mine / "mine" / "test" / label).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(mine / "mine" / "test" / label / "0.png")
    with pytest.raises(DataError, match="`split: validation`"):
        find("folder:mine", split="seed")
    one, other = (loaded("folder:mine", "validation", seed) for seed in (1, 2))
    assert examples(one, "val") != examples(other, "val")
    assert examples(one, "test") == examples(other, "test")


def test_validation_images_that_are_streamed_go_by_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    entry = replace(find("imagenet1k", split="validation"), classes=2)
    tiny.write(entry, tmp_path)

    def rows(seed: int) -> dict[str, list[int]]:
        data: Any = contract.make(entry, recipe=tiny.RECIPE, batch_size=4, seed=seed, sample=True)
        data.workers = 0
        data.setup()
        return {name: sorted(members.tolist()) for name, (_, members) in data.sources.items()}

    one, again, other = rows(1), rows(1), rows(2)
    assert one == again
    assert one["val"] != other["val"]
    assert one["test"] == other["test"]
