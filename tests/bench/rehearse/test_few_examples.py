"""A few examples of every data set of the catalogue, made up and real, through its own readers."""

from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lightning_bench.bench.rehearse import few_examples
from lightning_bench.bench.rehearse.few_examples import FewExamples
from lightning_bench.common.folders import CACHE_VARIABLE
from lightning_bench.data import catalogue
from lightning_bench.data.dataset import MASKED, DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules import contract
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.sources import locations
from lightning_bench.data.transforms.augment import Augmentation
from tests.mirror import DATA

RECIPE = {**asdict(Augmentation()), "whole_words": False}
COUNT = 3
NAMES = tuple(catalogue.entries())


@pytest.fixture(autouse=True)
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rehearsal's process alone changes."""
    monkeypatch.setattr(catalogue, "_substitutes", {})
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for variable in (locations.DATA, locations.MODELS):
        monkeypatch.setenv(variable, "")


def loaded(entry: DataSet, folder: Path) -> tuple[FewExamples, DataModule]:
    few = few_examples.prepare(entry, folder, COUNT)
    few_examples.use(few)
    found = catalogue.find(entry.name)
    assert found == few.entry
    data = contract.make(found, recipe=RECIPE, batch_size=COUNT, seed=0, sample=few.sampled)
    data.setup()
    return few, data


@pytest.mark.parametrize("name", NAMES)
def test_made_up_examples_have_the_shapes_types_and_lengths_of_the_catalogue(
    name: str, tmp_path: Path
) -> None:
    entry = catalogue.find(name)
    few, data = loaded(entry, tmp_path / "data")
    assert few.entry.module == entry.module  # streamed as all of it would be
    assert few.real == ()
    assert len(data.train_dataloader()) >= 2
    assert {"val", *entry.tests} <= data.sizes.keys()
    assert min(data.sizes.values()) >= 2
    loaders = [data.train_dataloader(), data.val_dataloader(), *data.test_dataloader()]
    lengths = set()
    for loader in loaders:
        batch = next(iter(loader))
        if entry.kind == "image":
            assert batch.inputs[0].shape[1:] == (entry.channels, *[entry.image_size] * 2)
        else:
            lengths.add(batch.inputs[0].shape[1])
            assert int(batch.inputs[0].max()) < entry.vocab_size
        if entry.task == "classify":
            assert int(batch.target.max()) < max(entry.classes, 2) or batch.target.ndim > 1
    if entry.kind == "text" and few.made_up:
        odd = name.endswith(("-pairs", "-nsp"))  # two halves and three special tokens
        assert max(lengths) == entry.length - odd


@pytest.mark.skipif(DATA is None, reason="no mirror of real data")
@pytest.mark.parametrize("name", ["cifar10", "pets", "sst2", "stsb", "ag-news-text"])
def test_real_examples_are_taken_where_they_are_at_hand(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(locations.DATA, str(DATA))
    few, _ = loaded(catalogue.find(name), tmp_path / "data")
    assert few.real == ("train", "test")
    assert few.made_up == ()


def test_a_wrong_column_is_told_as_the_reader_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(catalogue.find("cifar10"), tokenizer="")
    for split, pattern in entry.files.items():
        path = tmp_path / "mirror" / str(entry.repository) / pattern.replace("*", "0")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"image": [b""] * 60, "label": [0] * 60, "of": [split] * 60}), path)
    monkeypatch.setenv(locations.DATA, str(tmp_path / "mirror"))
    with pytest.raises(DataError, match="has no column 'img'"):
        loaded(entry, tmp_path / "data")


def test_texts_of_a_corpus_fill_their_batches(tmp_path: Path) -> None:
    corpora = [entry for entry in catalogue.entries().values() if entry.task in MASKED]
    assert corpora
    for entry in corpora:
        _, data = loaded(entry, tmp_path / "data")
        assert data.sizes["train"] >= 2 * COUNT, entry.name
