"""Generated pairs: does the second sentence follow from the first, contradict it, or neither?

A sentence is QUANTIFIER [adjective] NOUN VERB [place], over a small world: every noun has a class
that it belongs to. Under "some" a statement stays true for a wider noun or fewer words; under "all"
and "no" for a narrower subject; "some" and "no" of the same statement contradict each other, as do
"all" and "no". So what an edit means depends on the quantifier far away in the sentence.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

VERSION = 1
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)

_CLASSES = {
    "animals": ("dogs", "cats", "horses", "birds"),
    "people": ("sailors", "nurses", "children", "farmers"),
    "vehicles": ("trucks", "boats", "trains", "bikes"),
    "plants": ("roses", "oaks", "ferns", "vines"),
}
_CLASS_OF = {member: whole for whole, members in _CLASSES.items() for member in members}
_ADJECTIVES = ["small", "old", "red", "quiet", "happy", "wet", "tall", "young"]
_VERBS = ["waited", "moved", "rested", "disappeared", "stayed", "arrived", "returned", "shone"]
_PLACES = ["at home", "by the river", "in town", "near the bridge", "at night", "behind the wall"]

Split = tuple[list[list[str]], list[int]]


class Statement(NamedTuple):
    """What a sentence says; empty words are left out."""

    quantifier: str
    adjective: str
    noun: str
    verb: str
    place: str

    def __str__(self) -> str:
        return " ".join(part for part in self if part) + " ."


def words() -> list[str]:
    """Every word of the sentences, sorted."""
    words = {"some", "all", "no", ".", *_CLASSES, *_CLASS_OF, *_ADJECTIVES, *_VERBS}
    return sorted(words | {word for place in _PLACES for word in place.split()})


def splits(sizes: Mapping[str, int]) -> dict[str, Split]:
    """Premises, hypotheses and labels, as many of each label, no pair twice in any split."""
    draw = np.random.Generator(np.random.PCG64(0))
    seen: set[tuple[str, str]] = set()
    generated: dict[str, Split] = {}
    for name, size in sizes.items():
        pairs: list[tuple[str, str]] = []
        labels: list[int] = []
        while len(pairs) < size:
            premise, hypothesis, label = _pair(draw)
            pair = str(premise), str(hypothesis)
            if label == len(pairs) % 3 and premise != hypothesis and pair not in seen:
                seen.add(pair)
                pairs.append(pair)
                labels.append(label)
        generated[name] = ([list(side) for side in zip(*pairs, strict=True)], labels)
    return generated


def relation(premise: Statement, hypothesis: Statement) -> int:
    """Decide by the sets that the statements speak of; what they speak of is taken to exist."""
    if premise.verb != hypothesis.verb:
        return NEUTRAL
    before, after = premise.quantifier, hypothesis.quantifier
    narrower, wider = _within(hypothesis, premise), _within(premise, hypothesis)
    more = _implied(premise.place, hypothesis.place)  # the hypothesis says less of the place
    fewer = _implied(hypothesis.place, premise.place)
    if before == "no":
        if after == "no":
            return ENTAILMENT if narrower and fewer else NEUTRAL
        return CONTRADICTION if narrower and fewer else NEUTRAL
    if after == "no":
        # "Some X did Y", and all the more "all X did Y", is what "no" denies of as much or more.
        overlaps = wider or (before == "all" and narrower)
        return CONTRADICTION if overlaps and more else NEUTRAL
    if before == "all":
        entailed = narrower or (after == "some" and wider)
        return ENTAILMENT if entailed and more else NEUTRAL
    return ENTAILMENT if after == "some" and wider and more else NEUTRAL


def _within(inner: Statement, outer: Statement) -> bool:
    """Whether everything that `inner` is about is among what `outer` is about."""
    nouns = inner.noun == outer.noun or _CLASS_OF.get(inner.noun) == outer.noun
    return nouns and _implied(inner.adjective, outer.adjective)


def _implied(more: str, less: str) -> bool:
    return less in ("", more)


def _pair(draw: np.random.Generator) -> tuple[Statement, Statement, int]:
    nouns = [*_CLASSES, *_CLASS_OF]
    premise = Statement(
        _one(draw, ("some", "all", "no")),
        _one(draw, _ADJECTIVES) if draw.random() < 0.5 else "",
        _one(draw, nouns),
        _one(draw, _VERBS),
        _one(draw, _PLACES) if draw.random() < 0.5 else "",
    )
    hypothesis = premise
    if draw.random() < 0.6:
        hypothesis = hypothesis._replace(quantifier=_one(draw, ("some", "all", "no")))
    for _ in range(1 + draw.integers(2)):
        hypothesis = _edited(draw, hypothesis)
    return premise, hypothesis, relation(premise, hypothesis)


def _edited(draw: np.random.Generator, s: Statement) -> Statement:
    match draw.integers(5):
        case 0:
            return s._replace(adjective="" if s.adjective else _one(draw, _ADJECTIVES))
        case 1:
            return s._replace(place="" if s.place else _one(draw, _PLACES))
        case 2:
            near = _CLASSES.get(s.noun) or (_CLASS_OF[s.noun],)
            return s._replace(noun=_one(draw, near))
        case 3 if draw.random() < 0.3:
            return s._replace(verb=_one(draw, _VERBS))
    return s


def _one(draw: np.random.Generator, choices: "list[str] | tuple[str, ...]") -> str:
    return choices[draw.integers(len(choices))]
