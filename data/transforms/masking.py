"""BERT's masking: of 15 % of the tokens or words, 80 % are hidden, 10 % swapped, 10 % kept."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lightning_bench.common.targets import IGNORED
from lightning_bench.data.loader import generator

PART, HIDDEN, SWAPPED = 0.15, 0.8, 0.1


@dataclass(frozen=True)
class Masking:
    """Masking with a vocabulary; both tensors have an element for each of its tokens."""

    mask_token: int
    special: Tensor  # never masked, never drawn
    continues: Tensor  # belongs to the word before; all false where tokens are masked alone

    def apply(self, tokens: Tensor, numbers: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Mask each text by a generator of its own; return what is seen and what is wanted."""
        drawn = torch.stack(
            [torch.rand(3, tokens.shape[1], generator=generator(*each)) for each in numbers]
        )
        chosen = self._choose(tokens, drawn[:, 0])
        wanted = torch.where(chosen, tokens, IGNORED)
        ordinary = (~self.special).nonzero().flatten()
        other = ordinary[(drawn[:, 2] * len(ordinary)).long()]
        seen = torch.where(chosen & (drawn[:, 1] < HIDDEN), self.mask_token, tokens)
        swapped = chosen & (drawn[:, 1] >= HIDDEN) & (drawn[:, 1] < HIDDEN + SWAPPED)
        return torch.where(swapped, other, seen), wanted

    def _choose(self, tokens: Tensor, drawn: Tensor) -> Tensor:
        """The share of words with the smallest numbers, at least one of each text."""
        candidate = ~self.special[tokens]
        starts = candidate & ~self.continues[tokens]
        # A text cut within a word starts with the rest of it.
        starts[:, 1] |= candidate[:, 1]
        word = starts.cumsum(1) - 1
        score = torch.where(starts, drawn, 2.0)
        rank = score.argsort(1).argsort(1)
        count = (PART * starts.sum(1)).round().clamp_min(1)
        first = starts & (rank < count[:, None])
        position = torch.where(starts, torch.arange(tokens.shape[1]), 0).cummax(1).values
        return candidate & (word >= 0) & first.gather(1, position)
