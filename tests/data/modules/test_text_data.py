"""Texts: tokens, batches by length, generated tasks, masking."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from lightning_bench.common.targets import IGNORED
from lightning_bench.data import tokenisers
from lightning_bench.data.batch import Batch
from lightning_bench.data.catalogue import entries, find
from lightning_bench.data.errors import DataError
from lightning_bench.data.loader import Loader
from lightning_bench.data.modules.corpus import Corpus
from lightning_bench.data.modules.text_data import TextData

GLUE = ("cola", "sst2", "mrpc", "stsb", "mnli", "qnli", "wnli", "ag-news")
SAMPLES = {"mrpc", "mnli", "qnli", "ag-news"}


@pytest.fixture(scope="module", params=["polarity", "entailment", "python-docs-nsp", *GLUE])
def loaded(request: pytest.FixtureRequest) -> TextData:
    name = request.param
    if name in GLUE:
        request.getfixturevalue("mirror")
        request.getfixturevalue("weights")
    make = Corpus if name.endswith("nsp") else TextData
    data = make(name, batch_size=32, seed=3, sample=name in SAMPLES)
    data.setup()
    return data


def test_splits_are_as_large_as_promised(loaded: TextData) -> None:
    for name, size in loaded.sizes.items():
        promised = loaded.entry.splits.get(name, size)
        assert size <= promised if loaded.sample else size == promised
    labels = {label for found in loaded.splits.values() for label in np.unique(found.labels)}
    if loaded.entry.task == "classify":
        assert labels == set(range(loaded.entry.classes))
    assert max(found.tokens.max() for found in loaded.splits.values()) < loaded.entry.vocab_size


def test_splits_share_no_text_that_the_source_did_not_repeat(loaded: TextData) -> None:
    texts = {
        name: [
            found.tokens[a:b].tobytes()
            for a, b in zip(found.starts, found.starts[1:], strict=False)
        ]
        for name, found in loaded.splits.items()
    }
    train = set(texts["train"])
    repeated = sum(text in train for text in texts["test"]) / len(texts["test"])
    # GLUE repeats some sentences itself, most of all WNLI and short SST-2 phrases.
    generated = loaded.entry.name in {"polarity", "entailment"}
    assert repeated == 0 if generated else repeated < 0.05


def test_every_example_is_scored_once_and_trained_on_at_most_once(loaded: TextData) -> None:
    for loader in (loaded.val_dataloader(), *loaded.test_dataloader()):
        index = torch.cat([batch.indices for batch in loader])
        assert torch.equal(index.sort().values, torch.arange(len(loader.target)))
    loader = loaded.train_dataloader()
    index = torch.cat([batch.indices for batch in loader])
    assert len(index) == len(index.unique()) == len(loader) * 32
    assert torch.equal(index, torch.cat([batch.indices for batch in loader]))
    loader.sampler.set_epoch(1)
    assert not torch.equal(index, torch.cat([batch.indices for batch in loader]))


def test_a_batch_holds_the_texts_as_they_are(loaded: TextData) -> None:
    batch = next(iter(loaded.train_dataloader()))
    tokens, mask, segments = batch.inputs
    found = loaded.splits["train"]
    for row, i in enumerate(batch.indices.tolist()):
        own = found.tokens[found.starts[i] : found.starts[i + 1]]
        assert tokens[row, mask[row]].tolist() == own.tolist()
        assert not tokens[row, ~mask[row]].any()
        assert not segments[row, : found.second[i]].any()
        assert segments[row, found.second[i] : len(own)].all()


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_share_a_global_batch(ranks: int) -> None:
    alone = TextData("polarity", batch_size=32, seed=1)
    alone.setup()
    together = next(iter(alone.train_dataloader()))
    for rank in range(ranks):
        data = TextData("polarity", batch_size=32, seed=1, rank=rank, world_size=ranks)
        data.setup()
        share = next(iter(data.train_dataloader()))
        assert torch.equal(share.indices, together.indices[rank::ranks])
        assert torch.equal(share.inputs[0], together.inputs[0][rank::ranks])


@pytest.mark.parametrize("name", ["python-docs", "python-docs-pairs"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_text_is_masked_the_same_on_any_number_of_ranks(name: str, ranks: int) -> None:
    def first(rank: int, world_size: int) -> Batch:
        data = Corpus(name, batch_size=8, seed=1, rank=rank, world_size=world_size)
        data.setup()
        return next(iter(data.train_dataloader()))

    together = first(0, 1)
    for rank in range(ranks):
        share = first(rank, ranks)
        assert torch.equal(share.indices, together.indices[rank::ranks])
        assert torch.equal(share.target, together.target[rank::ranks])
        for ours, theirs in zip(share.inputs, together.inputs, strict=True):
            assert torch.equal(ours, theirs[rank::ranks])


def test_sst2_has_few_pads(mirror: Path, weights: Path) -> None:
    data = TextData("sst2", batch_size=32, seed=0)
    data.setup()
    masks = [batch.inputs[1] for batch in data.train_dataloader()]
    seen = sum(mask.sum().item() for mask in masks)
    assert 1 - seen / sum(mask.numel() for mask in masks) <= 0.10
    assert 1 - seen / (128 * sum(len(mask) for mask in masks)) > 0.75


def test_masks_change_with_the_epoch_in_training_only() -> None:
    data = Corpus("python-docs", batch_size=32, seed=0)
    data.setup()
    other = Corpus("python-docs", batch_size=7, seed=9)
    other.setup()

    def targets(loader: Loader) -> torch.Tensor:
        batches = list(loader)
        index = torch.cat([batch.indices for batch in batches])
        width = data.entry.length
        padded = [
            torch.nn.functional.pad(b.target, (0, width - b.target.shape[1]), value=IGNORED)
            for b in batches
        ]
        return torch.cat(padded)[index.argsort()]

    assert torch.equal(targets(data.val_dataloader()), targets(other.val_dataloader()))
    loader = data.train_dataloader()
    first = next(iter(loader))
    loader.sampler.set_epoch(1)
    assert not torch.equal(first.target, next(iter(loader)).target)


def test_settings_reach_the_model() -> None:
    entry = find("python-docs", length=32, tokenizer="train:500")
    data = Corpus(entry, batch_size=8, seed=0)
    data.setup()
    assert data.facts() == {"vocab_size": 500, "length": 32, "classes": 0}
    assert next(iter(data.val_dataloader())).inputs[0].shape[1] <= 32
    assert entries()["python-docs"].length == 64


def test_neither_length_nor_place_tells_which_pairs_follow(tmp_path: Path) -> None:
    """All segments are of one length, and half of the pairs follow each other."""
    data = Corpus("python-docs-nsp", batch_size=32, seed=0)
    data.setup()
    half = (data.entry.length - 3) // 2
    for found in data.splits.values():
        assert set(found.lengths) == {2 * half + 3}
        assert set(found.second) == {half + 2}
    train = data.splits["train"]
    assert train.labels.mean() == pytest.approx(0.5, abs=0.03)
    rows = train.tokens.reshape(len(train.labels), -1)
    follows = {
        row[: half + 1].tobytes(): row[half + 2 : -1].tobytes() for row in rows[train.labels == 1]
    }
    seconds = {row[half + 2 : -1].tobytes() for row in rows}
    firsts = [row for row, label in zip(rows, train.labels, strict=True) if not label]
    # What follows in another text is in most cases somebody's second segment here, too.
    there = np.mean([row[half + 2 : -1].tobytes() in seconds for row in firsts])
    assert there == 1.0
    wrong = [
        row[half + 2 : -1].tobytes() == follows.get(row[: half + 1].tobytes()) for row in firsts
    ]
    assert not any(wrong)


def test_a_corpus_is_packed_without_a_copy_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 million tokens of four bytes go to disk while Python holds a small part of them."""
    import tracemalloc

    from lightning_bench.data import cache
    from lightning_bench.data.modules import corpus

    monkeypatch.setattr(corpus, "_ROWS", 1 << 10)
    draft = cache.Draft(tmp_path)
    tokenizer = tokenisers.of_tokens(tokenisers.SPECIAL)
    texts = (np.full(1000, i % 7, dtype=np.int32) for i in range(20_000))
    tracemalloc.start()
    corpus._packed(draft, "train", texts, tokenizer, 128)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6  # bytes; as lists of arrays it was 600e6
    tokens, starts = draft.array("train-tokens"), draft.array("train-starts")
    assert len(tokens) == 20_000_000 + 2 * (len(starts) - 1)
    inner = np.concatenate([tokens[a + 1 : b - 1] for a, b in pairwise(starts[:21])])
    assert (inner == np.repeat(np.arange(20) % 7, 1000)[: len(inner)]).all()
    assert list(tmp_path.glob("*-stream")) == []


def test_a_table_with_labels_is_classified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    rows = [
        f'"the {word}, again {i}",{label}'
        for i in range(30)
        for word, label in (("sun", "warm"), ("ice", "cold"))
    ]
    (tmp_path / "mine.csv").write_text("text,label\n" + "\n".join(rows), encoding="utf-8")
    entry = find("text:mine.csv", tokenizer="train:300", length=16)
    assert (entry.task, entry.classes, entry.labels) == ("classify", 2, ("cold", "warm"))
    data = TextData(entry, batch_size=4, seed=0)
    data.setup()
    assert data.sizes == {"train": 48, "val": 6, "test": 6}
    (tmp_path / "none.csv").write_text("text\n" + "\n".join(rows), encoding="utf-8")
    assert find("text:none.csv").task == "masked-lm"
    (tmp_path / "few.txt").write_text("one line\n" * 3000, encoding="utf-8")
    with pytest.raises(DataError, match=r"1 text, too few .*an empty line ends a text"):
        Corpus(find("text:few.txt"), batch_size=4, seed=0).setup()
