"""Each rule of validation, broken by itself."""

from typing import Any

import pytest

from lightning_bench.bench.study.page import Location
from lightning_bench.bench.study.resolved import with_arguments
from lightning_bench.bench.study.study import Study
from lightning_bench.bench.study.validation import RULES

PAGE: dict[str, Any] = {
    "name": "n",
    "scale": "smoke",
    "title": "t",
    "question": "q",
    "data": ["digits"],
    "entries": {"A": {"model": "mlp", "start": "first"}, "B": {"model": "mlp"}},
    "stages": {"first": {"data": "digits"}},
    "seeds": 1,
}
LR = {"lr": {"float": [1e-4, 1e-2], "log": True}}

#: By rule: what is laid over the page, and the place of the one breach.
BROKEN: dict[str, tuple[dict[str, Any], Location]] = {
    "effect": ({"recipe": {"whole_words": True}, "stages": {}}, ("recipe", "whole_words")),
    "epochs": (
        {"stages": {"first": {"data": "digits", "recipe": {"epochs": 0}}}},
        ("stages", "first", "recipe", "epochs"),
    ),
    "origins": (
        {"entries": {"A": {"model": "mlp", "start": "first", "weights": "x"}}},
        ("entries", "A", "weights"),
    ),
    "starts": ({"stages": {"first": {"data": "cifar10"}}}, ("stages", "first", "data")),
    "data": ({"data": ["digits", "polarity"]}, ("data", 1)),
    "measured": ({"measure": {"data": ["mnist"]}}, ("measure", "data", 0)),
    "metrics": ({"epochs_to": {"acuracy": 0.9}}, ("epochs_to", "acuracy")),
    "probes": ({"probes": ["toeplits"]}, ("probes",)),
    "stages": ({"entries": {"B": {"model": "mlp"}}}, ("stages", "first")),
    "stand-ins": (
        {
            "entries": {
                **PAGE["entries"],
                "B": {"model": "mlp", "stands_for": "x", "published": "y"},
            }
        },
        ("entries", "B", "published"),
    ),
    "searched": (
        {"entries": {"A": {"model": "mlp", "start": "first", "space": LR}}},
        ("entries", "A", "space"),
    ),
    "fresh seeds": (
        {"search": {"trials": 2, "seeds": [0], "space": LR}},
        ("search", "seeds"),
    ),
    "spaces": (
        {"search": {"trials": 2, "space": LR | {"args.dept": {"int": [1, 3]}}}},
        ("search", "space", "args.dept"),
    ),
}


def breaches(changes: dict[str, Any]) -> list[tuple[str, Location]]:
    page = PAGE | changes
    if not page["stages"]:
        page["entries"] = {"B": {"model": "mlp"}}
    study = with_arguments(Study.model_validate(page))
    return [(rule.name, breach.at) for rule in RULES for breach in rule.breaches(study)]


def test_the_page_itself_keeps_all_rules() -> None:
    assert breaches({}) == []


def test_every_rule_is_broken_once_here() -> None:
    assert list(BROKEN) == [rule.name for rule in RULES]


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_is_broken_alone_and_says_where(name: str) -> None:
    changes, at = BROKEN[name]
    assert set(breaches(changes)) == {(name, at)}
