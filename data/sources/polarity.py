"""Generated sentences whose polarity words alone don't tell: negation and contrast decide.

A clause says a noun is good or bad; "not", "never", "hardly" and "far from" turn it round. Two
clauses joined by "and" agree. With "X but Y" the second decides, with "X although Y" and "although
Y , X" the other one (Y concedes), whatever the number of good words. A bag of words sees the
negations but not what they belong to, nor which clause comes first.
"""

from collections.abc import Mapping

import numpy as np

VERSION = 1
_NOUNS = [
    "plot",
    "film",
    "story",
    "acting",
    "music",
    "ending",
    "script",
    "pace",
    "cast",
    "dialogue",
    "camera",
    "humour",
]
_GOOD = [
    "brilliant",
    "moving",
    "clever",
    "charming",
    "fresh",
    "funny",
    "graceful",
    "gripping",
    "honest",
    "lovely",
]
_BAD = [
    "dull",
    "clumsy",
    "boring",
    "hollow",
    "stale",
    "tedious",
    "shallow",
    "awkward",
    "lifeless",
    "noisy",
]
_NEGATIONS = ("not", "never", "hardly", "far from")
_DEGREES = ("", "", "very", "rather", "truly", "quite")
_VERBS = ("was", "seemed", "felt", "looked")
_OTHERS = ["the", "and", "but", "although", "yet", "from", "far", ",", "."]

Split = tuple[list[list[str]], list[int]]


def words() -> list[str]:
    """Every word of the sentences, sorted."""
    words = {*_NOUNS, *_GOOD, *_BAD, *_VERBS, *_OTHERS, *_DEGREES}
    words |= {word for negation in _NEGATIONS for word in negation.split()}
    return sorted(words - {""})


def splits(sizes: Mapping[str, int]) -> dict[str, Split]:
    """Sentences and labels (0 negative, 1 positive), half of each, none twice in any split."""
    draw = np.random.Generator(np.random.PCG64(0))
    seen: set[str] = set()
    generated: dict[str, Split] = {}
    for name, size in sizes.items():
        sentences: list[str] = []
        labels: list[int] = []
        while len(sentences) < size:
            label = len(sentences) % 2
            sentence = _sentence(draw, bool(label))
            if sentence not in seen:
                seen.add(sentence)
                sentences.append(sentence)
                labels.append(label)
        generated[name] = ([sentences], labels)
    return generated


def _sentence(draw: np.random.Generator, good: bool) -> str:
    form = draw.integers(5)
    if form == 0:
        return f"{_clause(draw, good)} ."
    if form == 1:
        return f"{_clause(draw, good)} and {_clause(draw, good)} ."
    # What is conceded is mostly the opposite, but not always: else one clause would do.
    conceded = _clause(draw, good if draw.random() < 0.2 else not good)
    claim = _clause(draw, good)
    if form == 2:
        return f"{conceded} , {_one(draw, ('but', 'yet'))} {claim} ."
    if form == 3:
        return f"{claim} , although {conceded} ."
    return f"although {conceded} , {claim} ."


def _clause(draw: np.random.Generator, good: bool) -> str:
    turned = draw.random() < 0.4
    adjective = _one(draw, _GOOD if good != turned else _BAD)
    negation = _one(draw, _NEGATIONS) if turned else ""
    parts = ("the", _one(draw, _NOUNS), _one(draw, _VERBS), negation, _one(draw, _DEGREES))
    return " ".join(part for part in (*parts, adjective) if part)


def _one(draw: np.random.Generator, choices: list[str] | tuple[str, ...]) -> str:
    return choices[draw.integers(len(choices))]
