"""Which models are one family, and which of them have a depth: lines of reports join these."""

import re
from functools import cache
from itertools import combinations

import pytest
import torch

from lightning_bench.models.registry.catalogue import entries
from lightning_bench.models.registry.registry import create

FAMILIES: dict[str, dict[str, int | None]] = {
    "amlp-text": {"amlp-text-18": 18},
    "bag": {"bag": None},
    "bert": {
        "bert": 12,
        "bert-12": 12,
        "bert-24": 24,
        "bert-48": 48,
        "bert-6": 6,
        "bert-mini": None,
        "bert-small": None,
        "bert-tiny": None,
    },
    "bit": {"bit-r152x4": None},
    "convnet": {"convnet": 2},
    "deit": {"deit-b16": None},
    "efficientnet": {"efficientnet-b0": None, "efficientnet-b7": None, "efficientnet-l2": None},
    "fully-connected": {"fully-connected": None},
    "gmlp": {"gmlp": 30, "gmlp-b16": None, "gmlp-s16": None, "gmlp-ti16": None},
    "gmlp-text": {
        "gmlp-text": 18,
        "gmlp-text-144": 144,
        "gmlp-text-18": 18,
        "gmlp-text-36": 36,
        "gmlp-text-72": 72,
    },
    "halonet": {"halonet-h4": None},
    "lenet": {"lenet": None},
    "locally-connected": {"locally-connected": None},
    "lstm": {"lstm": 1},
    "mixer": {
        "mixer": 8,
        "mixer-b16": None,
        "mixer-b32": None,
        "mixer-h14": None,
        "mixer-l16": None,
        "mixer-l32": None,
        "mixer-s16": None,
        "mixer-s32": None,
    },
    "mixer-small": {"mixer-small": 8},
    "mlp": {"mlp": 2},
    "nfnet": {"nfnet-f0": None, "nfnet-f4plus": None},
    "rcnn": {"rcnn": None, "rcnn-128": None, "rcnn-160": None, "rcnn-96": None},
    "resnet": {
        "resnet-110": 110,
        "resnet-20": 20,
        "resnet-32": 32,
        "resnet-44": 44,
        "resnet-56": 56,
        "resnet-small": 20,
    },
    "resnet-imagenet": {"resnet-152": 152, "resnet-18": None, "resnet-50": 50},
    "tmlp-text": {"tmlp-text-18": 18},
    "transformer-text": {"transformer-text": 6},
    "vit": {
        "vit": 12,
        "vit-b14": None,
        "vit-b16": None,
        "vit-b32": None,
        "vit-h14": None,
        "vit-h16": None,
        "vit-h32": None,
        "vit-l14": None,
        "vit-l16": None,
        "vit-l32": None,
        "vit-s14": None,
        "vit-s16": None,
        "vit-s32": None,
        "vit-ti14": None,
        "vit-ti16": None,
        "vit-ti32": None,
    },
    "vit-hybrid": {"vit-hybrid-b16": None},
    "weight-sharing": {"weight-sharing": None},
}
#: Its blocks have two convolutions, the others' three; a ResNet for 224×224 it is all the same.
OF_ANOTHER_BLOCK = {"resnet-18"}


def test_every_model_is_of_one_family_and_has_a_depth_where_that_alone_differs() -> None:
    known = {
        name: (family, depth)
        for family, members in FAMILIES.items()
        for name, depth in members.items()
    }
    assert {name: (entry.family, entry.depth) for name, entry in entries().items()} == known


@cache
def shapes(name: str) -> frozenset[tuple[str, torch.Size]]:
    """The tensors of a model, by names without numbers: those of all blocks and stages are one."""
    with torch.device("meta"):
        state = create(name, classes=10).state_dict()
    return frozenset((re.sub(r"\d+", "N", key), value.shape) for key, value in state.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_one_family_differ_in_size_alone(family: str) -> None:
    kinds = {
        name: {(key, len(shape)) for key, shape in shapes(name)}
        for name in FAMILIES[family].keys() - OF_ANOTHER_BLOCK
    }
    for one, other in combinations(kinds, 2):
        assert kinds[one] == kinds[other], (one, other)


@pytest.mark.parametrize("family", FAMILIES)
def test_those_with_a_depth_differ_in_it_alone(family: str) -> None:
    deep = {name: shapes(name) for name, depth in FAMILIES[family].items() if depth}
    for one, other in combinations(deep, 2):
        assert deep[one] == deep[other], (one, other)
