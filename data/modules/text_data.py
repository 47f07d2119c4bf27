"""TextData: the LightningDataModule of labelled texts and pairs of them (GLUE and its like)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers

from lightning_bench.data import cache, previews, split, token_arrays, tokenisers
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.modules.image_data import check_labels
from lightning_bench.data.previews import Example
from lightning_bench.data.sources import entailment, polarity
from lightning_bench.data.sources.readers import Reader
from lightning_bench.data.sources.source_splits import source_splits, without_missing_tests
from lightning_bench.data.token_arrays import TextLoader, Texts

_GENERATED = {"polarity": polarity, "entailment": entailment}
_FORMAT = 3


class TextData(DataModule):
    """Texts tokenised once, as memory-mapped tokens, in batches of about one length."""

    def __init__(self, entry: str | DataSet, **options: Any) -> None:
        super().__init__(entry, **options)
        if self.sample:
            self.entry = without_missing_tests(self.entry)
        self.splits: dict[str, Texts] = {}
        self.shown: list[Example] = []

    def setup(self, stage: str | None = None) -> None:
        """Load and check all splits, once; for "fit" no test split is opened."""
        if not self.splits:
            kept = load(self.entry, sample=self.sample, split_seed=self.seed_of("split"))
            self._open(kept, stage)

    def _open(self, kept: cache.Bundle, stage: str | None) -> None:
        """Map the splits of a bundle, and of the training split the shots that are asked for."""
        self.bundle = kept
        names = [name for name in kept.facts["splits"] if self.entry.serves(name, stage)]
        self.splits = {name: token_arrays.load(kept, name) for name in names}
        self.shown = [Example(label, tuple(t)) for label, t, _ in kept.facts["examples"]]
        self.fingerprint = kept.fingerprint
        if self.entry.shots:
            train = self.splits["train"]
            members = split.shots(self.entry, train.labels, seed=self.seed_of("shots"))
            self.splits["train"] = token_arrays.select(train, members)
            self.fingerprint = cache.fingerprint_of_part(self.fingerprint, members)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        return {name: len(texts.labels) for name, texts in self.splits.items()}

    def examples(self) -> list[Example]:
        """A few training texts, as they stood before they were tokenised."""
        return self.shown

    def _loader(self, name: str, *, shuffle: bool = False) -> TextLoader:
        return TextLoader(
            self.splits[name],
            batch_size=self.batch_size,
            order=self._order(len(self.splits[name].labels), shuffle=shuffle),
        )


def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> TextData:
    """Make the data module; a recipe has nothing for it."""
    del recipe
    return TextData(entry, **options)


def load(entry: DataSet, *, sample: bool = False, split_seed: int = 0) -> cache.Bundle:
    """Tokenise the texts of a data set, or open what was tokenised before."""
    readers = {} if entry.name in _GENERATED else source_splits(entry)
    made_from = {
        "format": _FORMAT,
        "tokenizers": tokenizers.__version__,
        "entry": {key: str(value) for key, value in entry.what_counts().items()},
        "sample": sample,
        "files": {name: cache.stamp_of(reader.files) for name, reader in readers.items()},
        **split.drawn_by(entry, split_seed),
    }
    if entry.name in _GENERATED:
        made_from["generator"] = _GENERATED[entry.name].VERSION

    def fill(draft: cache.Draft) -> None:
        if entry.name in _GENERATED:
            _generate(draft, entry)
        else:
            _tokenise(draft, entry, readers, sample=sample, split_seed=split_seed)

    return cache.bundle(f"{entry.name}-{entry.length}", made_from, fill)


def _generate(draft: cache.Draft, entry: DataSet) -> None:
    generator = _GENERATED[entry.name]
    tokenizer = tokenisers.of_tokens([*tokenisers.SPECIAL, *generator.words()])
    if tokenizer.get_vocab_size() > entry.vocab_size:
        raise DataError(f"{entry.name} has {tokenizer.get_vocab_size()} words")
    for name, (columns, labels) in generator.splits(entry.splits).items():
        tokens, second = token_arrays.encode(tokenizer, columns, entry.length)
        token_arrays.save(draft, name, tokens, second, np.array(labels, dtype=np.int64))
        if name == "train":
            draft.facts["examples"] = _examples(entry, columns, np.array(labels))
    draft.facts["splits"] = list(entry.splits)


def _tokenise(
    draft: cache.Draft,
    entry: DataSet,
    readers: Mapping[str, Reader],
    *,
    sample: bool,
    split_seed: int,
) -> None:
    labels = {name: _labels(entry, reader) for name, reader in readers.items()}
    parts = split.assign_rows(entry, labels, sample=sample, seed=split_seed)
    columns = {
        name: [[text for piece in reader.column(c) for text in piece] for c in entry.columns]
        for name, reader in readers.items()
    }
    if entry.tokenizer.startswith("train:"):
        _, members = parts["train"]
        seen = [column[row] for row in members for column in columns["train"]]
        tokenizer = tokenisers.train(lambda: seen, tokenisers.wanted_size(entry.tokenizer))
    else:
        tokenizer = tokenisers.load(entry.tokenizer)
    encoded = {name: token_arrays.encode(tokenizer, c, entry.length) for name, c in columns.items()}
    for name, (source, rows) in parts.items():
        tokens, second = encoded[source]
        chosen = [tokens[row] for row in rows]
        token_arrays.save(draft, name, chosen, second[rows], labels[source][rows])
    _, members = parts["train"]
    trained = [[column[row] for row in members] for column in columns["train"]]
    draft.facts["examples"] = _examples(entry, trained, labels["train"][members])
    draft.facts["splits"] = list(parts)


def _examples(
    entry: DataSet, columns: Sequence[Sequence[str]], labels: np.ndarray
) -> list[Example]:
    return [
        previews.text(
            previews.label_of(entry, labels[row]),
            [column[row] for column in columns],
        )
        for row in previews.spread(labels)
    ]


def _labels(entry: DataSet, reader: Reader) -> np.ndarray:
    labels = reader.labels(entry.label)
    if entry.task in {"regress", "multilabel"}:
        wrong = np.flatnonzero(~np.isfinite(labels).reshape(len(labels), -1).all(1))
        if len(wrong):
            raise DataError(f"{reader.where}, row {wrong[0]}: label {labels[wrong[0]]}")
        return labels.astype(np.float32)
    check_labels(reader.where, labels, entry.classes)
    return labels.astype(np.int64)
