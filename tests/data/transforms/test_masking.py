"""Masking is BERT's."""

import pytest
import torch

from lightning_bench.common.targets import IGNORED
from lightning_bench.data.modules.corpus import Corpus


@pytest.mark.parametrize("whole_words", [False, True])
def test_masking_is_berts(whole_words: bool) -> None:
    data = Corpus("python-docs", batch_size=32, seed=0, whole_words=whole_words)
    data.setup()
    loader = data.train_dataloader()
    chosen = hidden = kept = candidates = 0
    for batch in loader:
        tokens, found = batch.inputs[0], batch.target != IGNORED
        plain = torch.where(found, batch.target, tokens)
        special = data.masking.special[plain]
        assert not (found & special).any()
        candidates += (~special).sum().item()
        chosen += found.sum().item()
        hidden += (tokens[found] == data.masking.mask_token).sum().item()
        kept += (tokens == batch.target).sum().item()
        if whole_words:  # whoever continues a word shares its fate
            follows = data.masking.continues[plain[:, 2:]]
            assert torch.equal(found[:, 2:][follows], found[:, 1:-1][follows])
    assert chosen / candidates == pytest.approx(0.15, abs=0.01)
    assert hidden / chosen == pytest.approx(0.8, abs=0.01)
    # A swap may draw the very token that stood there.
    assert kept / chosen == pytest.approx(0.1, abs=0.01)
