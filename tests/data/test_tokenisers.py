"""Tokenisers: BERT's own, equal to the libraries' and trained alike in every process."""

from pathlib import Path

import pytest
from tokenizers.implementations import BertWordPieceTokenizer

from lightning_bench.data import tokenisers
from lightning_bench.data.catalogue import find
from lightning_bench.data.sources import entailment, polarity
from lightning_bench.data.sources.source_splits import source_splits


@pytest.mark.parametrize("lowercase", [True, False])
def test_it_is_built_as_the_library_builds_berts(lowercase: bool) -> None:
    tokens = ["a", *reversed(tokenisers.SPECIAL), "##b", "é"]
    numbered = {token: number for number, token in enumerate(tokens)}
    theirs = BertWordPieceTokenizer(vocab=numbered, lowercase=lowercase)
    assert tokenisers.of_tokens(tokens, lowercase=lowercase).to_str() == theirs.to_str()


def test_it_is_trained_as_the_library_trains_berts() -> None:
    texts = [f"{a} and {b}: Crème brûlée, 日本" for a in polarity.words() for b in "xyz"]
    ours = tokenisers.train(lambda: texts, 400).get_vocab()
    theirs = BertWordPieceTokenizer()
    pieces = [token for token in ours if len(token) == 3 and token.startswith("##")]
    theirs.train_from_iterator(
        iter(texts),
        vocab_size=400,
        special_tokens=[*tokenisers.SPECIAL, *sorted(pieces)],
        show_progress=False,
    )
    assert ours == theirs.get_vocab()


def test_word_piece_is_transformers_own(mirror: Path, weights: Path) -> None:
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(str(weights / "all-MiniLM-L6-v2"))
    ours = tokenisers.load("bert-uncased")
    for text in ("Unbelievably, it's naïve!", "日本 12,000 re-entered"):
        assert ours.encode(text).ids == reference(text)["input_ids"]


def test_a_trained_vocabulary_is_the_same_every_time() -> None:
    texts = [f"{a} and {b}" for a in polarity.words() for b in entailment.words()]
    first, again = (tokenisers.train(lambda: texts, 400).get_vocab() for _ in range(2))
    assert first == again
    assert len(first) <= 400


def test_a_vocabulary_is_kept_by_the_content_of_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{a} or {b}" for a in polarity.words() for b in entailment.words()]
    first = tokenisers.train(lambda: texts, 350).get_vocab()
    monkeypatch.setattr(tokenisers, "_trained", None)  # it would not be called
    assert tokenisers.train(lambda: list(texts), 350).get_vocab() == first
    with pytest.raises(TypeError):
        tokenisers.train(lambda: [*texts, "more"], 350)


@pytest.mark.slow
def test_a_vocabulary_of_30_000_is_trained_on_real_texts(mirror: Path) -> None:
    """AG News and GLUE have enough words for all of it; common words are not cut."""
    texts = [
        text
        for name in ("ag-news", "sst2", "mnli", "qnli", "mrpc", "cola")
        for column in find(name).columns
        for piece in source_splits(find(name), ("train",))["train"].column(column)
        for text in piece
    ]
    tokenizer = tokenisers.train(lambda: texts, 30_000)
    assert tokenizer.get_vocab_size() == 30_000
    sentence = "the president said that the market was strong"
    assert " ".join(tokenizer.encode(sentence).tokens[1:-1]) == sentence
    sampled = [tokenizer.encode(text) for text in texts[::500]]
    tokens = [token for found in sampled for token in found.tokens]
    assert tokens.count("[UNK]") / len(tokens) < 1e-3
    assert sum(token.startswith("##") for token in tokens) / len(tokens) < 0.1
