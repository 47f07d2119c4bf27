"""Texts: tokenised examples of one split in three flat arrays, and batches padded to the longest.

Batches hold texts of about one length: the epoch's permutation is cut into windows, each sorted by
length and cut into batches, and the batches are shuffled. So every epoch sees other company.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from lightning_bench.data.batch import Batch
from lightning_bench.data.cache import Bundle, Draft
from lightning_bench.data.loader import EpochOrder, Loader, generator

_WINDOW = 64  # global batches sorted together


class Texts(NamedTuple):
    """`tokens` of all texts end to end, where each starts, and where its second part starts."""

    tokens: np.ndarray
    starts: np.ndarray  # one more than there are texts
    second: np.ndarray  # counted from the text's start; its length where it has one part only
    labels: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each text."""
        return np.diff(self.starts)


def encode(
    tokenizer: Tokenizer, columns: Sequence[Sequence[str]], length: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Tokenise texts or pairs, cut to `length`; return tokens and where second parts start."""
    tokenizer.enable_truncation(length)
    tokenizer.no_padding()
    inputs = list(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))
    tokens, second = [], []
    for encoding in tokenizer.encode_batch(inputs):
        tokens.append(np.array(encoding.ids, dtype=np.int32))
        second.append(len(encoding.ids) - sum(encoding.type_ids))
    return tokens, np.array(second, dtype=np.int32)


def empty(draft: Draft, split: str, lengths: np.ndarray) -> np.ndarray:
    """Make room on disk for the tokens of texts of these lengths, and say where each starts."""
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    draft.save(f"{split}-starts", starts)
    return draft.empty(f"{split}-tokens", (int(starts[-1]),), np.int32)


def save(
    draft: Draft, split: str, tokens: Sequence[np.ndarray], second: np.ndarray, labels: np.ndarray
) -> None:
    """Put a split's texts into a bundle."""
    starts = np.concatenate([[0], np.cumsum([len(text) for text in tokens])]).astype(np.int64)
    draft.save(f"{split}-tokens", np.concatenate(tokens))
    draft.save(f"{split}-starts", starts)
    draft.save(f"{split}-second", second)
    draft.save(f"{split}-labels", labels)


def load(bundle: Bundle, split: str) -> Texts:
    """Map a split's texts."""
    return Texts(*(bundle.array(f"{split}-{part}") for part in Texts._fields))


def select(texts: Texts, members: np.ndarray) -> Texts:
    """Some of the texts, copied."""
    tokens = [texts.tokens[texts.starts[i] : texts.starts[i + 1]] for i in members]
    starts = np.concatenate([[0], np.cumsum([len(text) for text in tokens])]).astype(np.int64)
    return Texts(np.concatenate(tokens), starts, texts.second[members], texts.labels[members])


class TextLoader(Loader):
    """Batches (tokens, mask, segments), padded to the longest of the global batch."""

    def __init__(self, texts: Texts, *, batch_size: int, order: EpochOrder) -> None:
        super().__init__(torch.from_numpy(texts.labels), batch_size=batch_size, order=order)
        self.tokens = torch.from_numpy(texts.tokens)
        self.starts = torch.from_numpy(texts.starts)
        self.lengths = self.starts.diff()
        self.second = torch.from_numpy(texts.second).long()

    def permutation(self) -> Tensor:
        """The epoch's order, texts of one length together."""
        order = self.sampler
        permutation = order.permutation()
        size = self.batch_size
        if not order.shuffle:
            return permutation[self.lengths[permutation].argsort(stable=True)]
        permutation = permutation[: max(1, len(permutation) // size) * size]
        windows = torch.split(permutation, _WINDOW * size)
        by_length = [window[self.lengths[window].argsort(stable=True)] for window in windows]
        batches = torch.split(torch.cat(by_length), size)
        shuffled = torch.randperm(
            len(batches), generator=generator(order.seed, order.epoch, len(batches))
        )
        return torch.cat([batches[i] for i in shuffled.tolist()])

    def host_batch(self, number: int, global_batch: Tensor) -> Batch:
        """Gather, pad and mark."""
        index = self.share_of(global_batch)
        lengths = self.lengths[index]
        longest = int(self.lengths[global_batch].max())
        places = torch.arange(longest)
        mask = places < lengths[:, None]
        flat = (self.starts[index][:, None] + places).clamp_max_(len(self.tokens) - 1)
        # The pad is token 0 in every vocabulary of BERT's kind.
        tokens = torch.where(mask, self.tokens[flat].long(), 0)
        segments = ((places >= self.second[index][:, None]) & mask).long()
        return Batch((tokens, mask, segments), self.target[index], index, len(global_batch))
