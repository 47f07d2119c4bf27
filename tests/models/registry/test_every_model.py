"""Every registered variant against every check of the contract (`models.registry.contract`).

A new variant is tested by being registered. Large ones are followed on the meta device.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
import torch

from lightning_bench.models.registry.contract import CHECKS, NotHere, Subject, compiles
from lightning_bench.models.registry.counting import parameters
from lightning_bench.models.registry.registry import variants

FAST = 10_000_000  # parameters that a fast test may hold on the CPU
GIANT = 300_000_000  # and beyond which nothing is held: those are followed on meta only


@cache
def subject(name: str, largest: int = FAST) -> Subject:
    return Subject(variants()[name], largest)


@cache
def size(name: str) -> int:
    with torch.device("meta"):
        return parameters(subject(name).make())


def put(check: Callable[[Subject], None], it: Subject) -> None:
    try:
        check(it)
    except NotHere as reason:
        pytest.skip(str(reason))


TEXT_ONLY = {"pads", "segments", "words"}
PAIRS = [
    (name, check)
    for name, found in variants().items()
    for check in CHECKS
    if check != "compiled" and (found.kind == "text" or check not in TEXT_ONLY)
]


@pytest.mark.parametrize(("name", "check"), PAIRS)
def test_contract(name: str, check: str) -> None:
    put(CHECKS[check], subject(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in variants() if FAST < size(name) <= GIANT])
def test_contract_with_numbers_for_large_models(name: str) -> None:
    held = Subject(variants()[name], GIANT)
    for title, check in CHECKS.items():
        if title != "compiled":
            with suppress(NotHere):
                check(held)


@pytest.mark.slow
@pytest.mark.parametrize("name", variants())
def test_every_variant_survives_the_compilers_tracing(name: str) -> None:
    compiles(subject(name), backend="eager")


# One of each kind of layer through the whole compiler.
NARROW = {
    "convnet": {},
    "lenet": {},
    "lstm": {"width": 32},
    "vit": {"width": 32, "depth": 2, "heads": 2, "hidden": 64},
    "gmlp": {"width": 32, "depth": 2, "hidden": 64},
    "mixer": {"width": 32, "depth": 2, "token_width": 16, "channel_width": 64},
    "gmlp-text": {"width": 32, "depth": 2, "hidden": 64},
    "transformer-text": {"width": 32, "depth": 2, "heads": 2, "hidden": 64},
    "bert-tiny": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NARROW)
def test_compiled_models_give_the_same_logits(name: str) -> None:
    it = Subject(variants()[name], FAST)
    it.arguments |= NARROW[name]
    it.device = torch.device("cpu")
    compiles(it, backend="inductor")


def test_a_model_that_is_too_large_is_followed_on_the_meta_device() -> None:
    it = subject("vit-h14")
    assert it.device.type == "meta"
    with pytest.raises(NotHere, match="too large"):
        CHECKS["bf16"](it)
