"""Cached hidden states of a frozen encoder, looked up by the tokens of each text."""

import torch
from torch import Tensor

_SEED = 0x5EED


class CachedStates:
    """The hidden states of all tokens of some texts, end to end.

    A text is looked up by its `token_keys`, a number for each token in its segment: by a hash of
    them, and then they are compared, so that no text is given another's states. (By the index of
    the example it would be simpler, but a model is called with inputs alone.)
    """

    def __init__(self, token_keys: Tensor, starts: Tensor, states: Tensor) -> None:
        self.token_keys, self.starts, self.states = token_keys, starts, states
        self.lengths = starts.diff()
        longest = int(self.lengths.max())
        drawn = torch.Generator().manual_seed(_SEED)
        self._factors = torch.randint(-(2**62), 2**62, (longest,), generator=drawn)
        place = torch.arange(len(token_keys)) - starts[:-1].repeat_interleave(self.lengths)
        # Sums and products of 64 bits wrap around, and are as good a hash.
        sums = torch.zeros(len(token_keys) + 1, dtype=torch.int64)
        torch.cumsum((token_keys + 1) * self._factors[place], 0, out=sums[1:])
        self._hashes, self._texts = (sums[starts[1:]] - sums[starts[:-1]]).sort()

    @torch.compiler.disable
    def find(self, token_keys: Tensor, mask: Tensor) -> Tensor | None:
        """The states B×S×C of a batch, zero at its pads; None where a text is not known."""
        longest = token_keys.shape[1]
        if longest > len(self._factors):
            return None
        here, seen = token_keys.cpu(), mask.cpu()
        hashes = ((here + 1) * self._factors[:longest]).mul_(seen).sum(1)
        position = torch.searchsorted(self._hashes, hashes).clamp_max_(len(self._hashes) - 1)
        text = self._texts[position]
        flat = (self.starts[text][:, None] + torch.arange(longest)).clamp_max_(
            len(self.token_keys) - 1
        )
        same = (self.token_keys[flat] == here) | ~seen
        if not (same.all() and torch.equal(self.lengths[text], seen.sum(1))):
            return None
        return (self.states[flat] * seen[..., None]).to(token_keys.device)


def token_keys(tokens: Tensor, segments: Tensor | None) -> Tensor:
    """A number for each token in its segment."""
    return tokens * 2 if segments is None else tokens * 2 + segments
