"""Generated texts: their labels hold in every world, and they are the same everywhere."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from lightning_bench.data.sources import entailment
from lightning_bench.data.sources.entailment import CONTRADICTION, ENTAILMENT, NEUTRAL, Statement

#: Of each noun with its class and adjective, whether it did it, and whether it did it there.
World = list[tuple[tuple[str, str, str], bool, bool]]


def _worlds(count: int) -> Iterator[World]:
    """Random worlds: for every kind, adjective and place, who did what; nothing is empty."""
    draw = np.random.default_rng(0)
    kinds = [(noun, whole) for whole, nouns in entailment._CLASSES.items() for noun in nouns]
    things = [(n, w, a) for n, w in kinds for a in ("", *entailment._ADJECTIVES)]
    for _ in range(count):
        rate = draw.choice([0.02, 0.3, 0.97, 1.0])
        yield [(thing, draw.random() < rate, draw.random() < rate) for thing in things]


def _true(s: Statement, world: World) -> bool:
    """Whether all, some or none of those it is about did it (there, if it says where)."""
    about = [
        did and (there or not s.place)
        for (noun, whole, adjective), did, there in world
        if s.noun in (noun, whole) and s.adjective in ("", adjective)
    ]
    return {"all": all(about), "some": any(about), "no": not any(about)}[s.quantifier]


def test_entailment_labels_hold_in_every_world() -> None:
    draw = np.random.Generator(np.random.PCG64(1))
    worlds = list(_worlds(60))
    counted = dict.fromkeys((ENTAILMENT, NEUTRAL, CONTRADICTION), 0)
    for _ in range(400):
        premise, hypothesis, label = entailment._pair(draw)
        same_place = premise.place == hypothesis.place or not (premise.place and hypothesis.place)
        if premise.verb != hypothesis.verb or not same_place:
            continue  # the worlds know one verb and one place
        then = [_true(hypothesis, world) for world in worlds if _true(premise, world)]
        counted[label] += bool(then)
        if label == ENTAILMENT:
            assert all(then), (premise, hypothesis)
        elif label == CONTRADICTION:
            assert not any(then), (premise, hypothesis)
    assert min(counted.values()) > 20


def test_generated_texts_are_the_same_in_every_process() -> None:
    code = (
        "from lightning_bench.data.sources import polarity, entailment; import hashlib;"
        "text = repr([g.splits({'a': 50, 'b': 20}) for g in (polarity, entailment)]);"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
