"""Corpus: raw text for masked language modelling, and pairs for next-sentence prediction."""

from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import tokenizers
import torch
from torch import Tensor

from lightning_bench.data import cache, previews, progress, split, token_arrays, tokenisers
from lightning_bench.data.batch import Batch
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules.text_data import TextData
from lightning_bench.data.sources.readers import Reader
from lightning_bench.data.sources.source_splits import source_splits
from lightning_bench.data.token_arrays import TextLoader
from lightning_bench.data.transforms.masking import Masking

_FORMAT = 3
_PIECE = 4096
_ROWS = 1 << 16
_FEWEST = 10


class Corpus(TextData):
    """Texts end to end, cut to the length of the model; masked anew every epoch.

    Validation and test are masked once and for all, so that every model fills in the same gaps.
    """

    def __init__(self, entry: str | DataSet, *, whole_words: bool = False, **options: Any) -> None:
        super().__init__(entry, **options)
        self.whole_words = whole_words

    def setup(self, stage: str | None = None) -> None:
        """Load all splits, once; for "fit" no test split is opened."""
        if self.splits:
            return
        kept = load(self.entry, sample=self.sample, split_seed=self.seed_of("split"))
        self._open(kept, stage)
        special, continues = (
            torch.from_numpy(kept.array(name)) for name in ("special", "continues")
        )
        self.masking = Masking(
            kept.facts["mask_token"], special, continues & torch.tensor(self.whole_words)
        )

    def _loader(self, name: str, *, shuffle: bool = False) -> TextLoader:
        if self.entry.task == "classify":
            return super()._loader(name, shuffle=shuffle)
        texts = self.splits[name]
        order = self._order(len(texts.labels), shuffle=shuffle)
        kind = PairLoader if self.entry.task == "pretrain" else MaskedLoader
        return kind(texts, self.masking, batch_size=self.batch_size, order=order)


class MaskedLoader(TextLoader):
    """Masks each text by numbers of its own: those of the epoch, or in evaluation always the same.

    So the masks don't depend on the batch size, on the order or on the number of ranks.
    """

    def __init__(self, texts: token_arrays.Texts, masking: Masking, **options: Any) -> None:
        super().__init__(texts, **options)
        self.masking = masking

    def host_batch(self, number: int, global_batch: Tensor) -> Batch:
        """Gather and pad, then mask; a pad is special, and so never masked."""
        (tokens, mask, segments), _, indices, global_size = super().host_batch(number, global_batch)
        order = self.sampler
        stream = (order.augmentation_seed, order.epoch) if order.shuffle else (0,)
        seen, wanted = self.masking.apply(tokens, [(*stream, int(i)) for i in indices])
        return Batch((seen, mask, segments), wanted, indices, global_size)


class PairLoader(MaskedLoader):
    """Masks pairs; the target has the pair's class in the place of [CLS]."""

    def host_batch(self, number: int, global_batch: Tensor) -> Batch:
        """Mask, then say whether the second part follows."""
        batch = super().host_batch(number, global_batch)
        batch.target[:, 0] = self.target[batch.indices]
        return batch


def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> Corpus:
    """Make the data module with the masking of a recipe."""
    return Corpus(entry, whole_words=recipe["whole_words"], **options)


def load(entry: DataSet, *, sample: bool = False, split_seed: int = 0) -> cache.Bundle:
    """Tokenise a corpus, or open what was tokenised before."""
    readers = source_splits(entry)
    made_from = {
        "format": _FORMAT,
        "tokenizers": tokenizers.__version__,
        "entry": {key: str(value) for key, value in entry.what_counts().items()},
        "sample": sample,
        "files": {name: cache.stamp_of(reader.files) for name, reader in readers.items()},
        **split.drawn_by(entry, split_seed),
    }
    if entry.task != "masked-lm":
        made_from["pairs"] = "of one length"
    if entry.source.startswith("embedded"):
        made_from["texts"] = str(digest_of_texts(readers))

    def fill(draft: cache.Draft) -> None:
        column = entry.columns[0]
        # Texts have no labels: all are of one class.
        unlabelled = {n: np.zeros(r.count(column), np.int64) for n, r in readers.items()}
        _demand_enough(entry, unlabelled)
        parts = split.assign_rows(entry, unlabelled, sample=sample, seed=split_seed)

        def texts(part: str) -> Iterator[str]:
            source, rows = parts[part]
            wanted, row = np.zeros(len(unlabelled[source]), dtype=bool), 0
            wanted[rows] = True
            for piece in readers[source].column(column):
                yield from (text for i, text in enumerate(piece, start=row) if wanted[i])
                row += len(piece)
                progress.report(f"{entry.name}/{part}: {row:,} texts")

        if entry.tokenizer.startswith("train:"):
            size = tokenisers.wanted_size(entry.tokenizer)
            tokenizer = tokenisers.train(lambda: texts("train"), size)
        else:
            tokenizer = tokenisers.load(entry.tokenizer)
        cut = _packed if entry.task == "masked-lm" else _pairs
        for name in parts:
            cut(draft, name, _encoded(tokenizer, texts(name)), tokenizer, entry.length)
        _save_vocabulary(draft, tokenizer, entry.vocab_size)
        draft.facts["examples"] = _examples(draft, tokenizer, entry)
        draft.facts["splits"] = list(parts)

    return cache.bundle(f"{entry.name.replace(':', '-')}-{entry.length}", made_from, fill)


def _demand_enough(entry: DataSet, found: Mapping[str, np.ndarray]) -> None:
    """Texts of somebody's own must be enough for a tenth of them to be some."""
    count = len(found["train"])
    if entry.name.startswith("text:") and count < _FEWEST:
        raise DataError(
            f"{entry.name}: {count} text{'s' * (count != 1)}, too few to hold out a tenth "
            f"({_FEWEST} at least); in a .txt an empty line ends a text"
        )


def digest_of_texts(readers: Mapping[str, Reader]) -> str:
    """The digest of texts that lie in no file."""
    return cache.fingerprint(
        (name, np.array([text for piece in reader.column("text") for text in piece]))
        for name, reader in readers.items()
    )


def _encoded(tokenizer: tokenizers.Tokenizer, texts: Iterator[str]) -> Iterator[np.ndarray]:
    """The tokens of each text that has any, without special ones."""
    tokenizer.no_truncation()
    piece: list[str] = []
    for text in texts:
        piece.append(text)
        if len(piece) == _PIECE:
            yield from _ids(tokenizer, piece)
            piece = []
    yield from _ids(tokenizer, piece)


def _ids(tokenizer: tokenizers.Tokenizer, piece: list[str]) -> Iterator[np.ndarray]:
    for encoding in tokenizer.encode_batch(piece, add_special_tokens=False):
        if encoding.ids:
            yield np.array(encoding.ids, dtype=np.int32)


class _TokenStream(NamedTuple):
    """The tokens of all texts end to end, on disk, and where each text starts."""

    tokens: np.ndarray
    starts: np.ndarray  # one more than there are texts


@contextmanager
def _on_disk(
    draft: cache.Draft, name: str, encoded: Iterator[np.ndarray]
) -> Iterator[_TokenStream]:
    """Write texts to a file as they come, and map it: a corpus may be larger than memory."""
    path = draft.folder / f"{name}-stream"
    lengths = array("q")
    with path.open("wb") as file:
        for text in encoded:
            file.write(text.astype(np.int32).tobytes())
            lengths.append(len(text))
    if not lengths:
        path.unlink()
        raise DataError(f"the {name} split has no text")
    starts = np.concatenate([[0], np.cumsum(np.frombuffer(lengths, np.int64))])
    try:
        yield _TokenStream(np.memmap(path, np.int32, "r"), starts)
    finally:
        path.unlink()


def _packed(
    draft: cache.Draft,
    name: str,
    encoded: Iterator[np.ndarray],
    tokenizer: tokenizers.Tokenizer,
    length: int,
) -> None:
    """[CLS] as many tokens as fit [SEP], across the borders of texts; only the last is shorter."""
    first, last = (tokenizer.token_to_id(t) for t in (tokenisers.CLS, tokenisers.SEP))
    with _on_disk(draft, name, encoded) as (stream, _):
        step = length - 2
        full, rest = divmod(len(stream), step)
        lengths = np.array([length] * full + [rest + 2] * bool(rest), dtype=np.int64)
        out = token_arrays.empty(draft, name, lengths)
        rows = out[: full * length].reshape(full, length)
        rows[:, 0], rows[:, -1] = first, last
        for start in range(0, full, _ROWS):
            end = min(start + _ROWS, full)
            rows[start:end, 1:-1] = stream[start * step : end * step].reshape(-1, step)
        if rest:
            out[full * length :] = [first, *stream[full * step :], last]
    draft.save(f"{name}-second", lengths.astype(np.int32))
    draft.save(f"{name}-labels", np.zeros(len(lengths), dtype=np.int64))


def _pairs(
    draft: cache.Draft,
    name: str,
    encoded: Iterator[np.ndarray],
    tokenizer: tokenizers.Tokenizer,
    length: int,
) -> None:
    """[CLS] a segment [SEP] the next one [SEP], or in half of all pairs one of another text.

    All segments are of one length, and those of other texts follow something too: so neither length
    nor place tells which pairs follow each other.
    """
    first, last = (tokenizer.token_to_id(t) for t in (tokenisers.CLS, tokenisers.SEP))
    half = (length - 3) // 2
    with _on_disk(draft, name, encoded) as (stream, starts):
        counts = np.maximum(np.diff(starts) // half - 1, 0)  # of each text's pairs
        total, texts = int(counts.sum()), np.flatnonzero(counts)
        if not total:
            raise DataError(
                f"the {name} split has no text of {2 * half} tokens or more to make pairs of"
            )
        begin = np.concatenate([[0], np.cumsum(counts)])[:-1]  # the first of each text's pairs
        own = np.repeat(np.arange(len(counts)), counts)
        place = starts[own] + (np.arange(total) - begin[own]) * half
        draw = np.random.Generator(np.random.PCG64(0))
        is_next = draw.integers(2, size=total).astype(bool) | (len(texts) == 1)
        # Any pair's second segment but those of the same text, each as likely as the others.
        other = draw.integers(np.maximum(total - counts[own], 1))
        other += np.where(other >= begin[own], counts[own], 0)
        second = np.where(is_next, place, place[np.where(is_next, 0, other)]) + half
        out = token_arrays.empty(draft, name, np.full(total, 2 * half + 3)).reshape(total, -1)
        out[:, 0], out[:, half + 1], out[:, -1] = first, last, last
        within = np.arange(half)
        for begun in range(0, total, _ROWS):
            part = slice(begun, begun + _ROWS)
            out[part, 1 : half + 1] = stream[place[part, None] + within]
            out[part, half + 2 : -1] = stream[second[part, None] + within]
    draft.save(f"{name}-second", np.full(total, half + 2, dtype=np.int32))
    draft.save(f"{name}-labels", is_next.astype(np.int64))


def _examples(
    draft: cache.Draft, tokenizer: tokenizers.Tokenizer, entry: DataSet
) -> list[previews.Example]:
    """Training texts as a model gets them, but for the masks."""
    tokens, starts, second, labels = (
        draft.array(f"train-{part}") for part in token_arrays.Texts._fields
    )
    examples = []
    for row in previews.spread(labels):
        own = tokens[starts[row] : starts[row + 1]]
        parts = own[: second[row]], own[second[row] :]
        read = [tokenizer.decode(part.tolist()) for part in parts if len(part)]
        examples.append(previews.text(entry.labels[labels[row]] if entry.labels else "", read))
    return examples


def _save_vocabulary(draft: cache.Draft, tokenizer: tokenizers.Tokenizer, size: int) -> None:
    special, continues = np.ones(size, dtype=bool), np.zeros(size, dtype=bool)
    for token, number in tokenizer.get_vocab().items():
        special[number] = token in tokenisers.SPECIAL
        continues[number] = token.startswith("##")
    draft.save("special", special)
    draft.save("continues", continues)
    draft.facts["mask_token"] = tokenizer.token_to_id(tokenisers.MASK)
