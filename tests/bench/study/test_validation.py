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
    "own training": (
        {
            "stages": {},
            "entries": {"B": {"model": "tests.bench.own_modules:Predicts"}},
            "recipe": {"lr": 0.1},
        },
        ("recipe", "lr"),
    ),
    "epochs": (
        {"stages": {"first": {"data": "digits", "recipe": {"epochs": 0}}}},
        ("stages", "first", "recipe", "epochs"),
    ),
    "origins": (
        {"entries": {"A": {"model": "mlp", "start": "first", "weights": "x"}}},
        ("entries", "A", "weights"),
    ),
    "starts": ({"stages": {"first": {"data": "cifar10"}}}, ("stages", "first", "data")),
    "ranking": ({"metrics": ["nll", "brir"]}, ("metrics", 1)),
    "networks": (
        {"entries": {**PAGE["entries"], "B": {"model": "torch.nn:Identity"}}},
        ("entries", "B", "model"),
    ),
    "data": ({"data": ["digits", "polarity"]}, ("data", 1)),
    "measured": ({"measure": {"data": ["mnist"]}}, ("measure", "data", 0)),
    "metrics": ({"epochs_to": {"acuracy": 0.9}}, ("epochs_to", "acuracy")),
    "ranked by": ({"ranked_by": "acuracy"}, ("ranked_by",)),
    "losses": (
        {"entries": {"A": {"model": "mlp", "start": "first", "recipe": {"loss": "mse"}}}},
        ("entries", "A", "recipe", "loss"),
    ),
    "class metrics": ({"metrics": ["nll"], "predictions": "labels"}, ("metrics", 0)),
    "probes": ({"probes": ["toeplits"]}, ("probes",)),
    "margin": ({"margin": {"digit": 0.5}}, ("margin", "digit")),
    "stages": ({"entries": {"B": {"model": "mlp"}}}, ("stages", "first")),
    "splits": (
        {"data": [{"name": "digits", "split": "seed"}], "entries": {"A": PAGE["entries"]["A"]}},
        ("entries", "A", "start"),
    ),
    "repeated": (
        {"search": {"trials": 2, "repeat": 6, "space": LR}, "seeds": 5},
        ("search", "repeat"),
    ),
    "variance": ({"variance": ["dropout"], "seeds": 6}, ("variance",)),
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
    "claims": ({"claims": [["B", "C"]]}, ("claims", 0)),
    "looks": ({"seeds": {"looks": [2, 6]}}, ("seeds", "looks")),
    "spread": ({"spread": {"digit": 0.5}}, ("spread", "digit")),
    "figures": ({"figures": [{"kind": "bars", "y": "acuracy"}]}, ("figures", 0, "y")),
    "spaces": (
        {"search": {"trials": 2, "space": LR | {"args.dept": {"int": [1, 3]}}}},
        ("search", "space", "args.dept"),
    ),
}


def breaches(changes: dict[str, Any]) -> list[tuple[str, Location]]:
    page = PAGE | changes
    if not page["stages"] and "entries" not in changes:
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


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metrics": ["brir"]}, "there is no metric 'brir'; did you mean 'brier'?"),
        ({"metrics": ["ece", "nll", "ece"]}, "ece is given twice"),
        ({"metrics": ["R2Score"]}, "R2Score is for regress, which no data set is"),
        ({"metrics": ["F1Score"]}, "F1Score without an average is torchmetrics' micro"),
        ({"metrics": {"R2Score": "min"}}, "of R2Score, more is better"),
        ({"metrics": ["nll", "AUROC"]}, "nll is of the test alone and can't rank"),
        ({"metrics": ["tests.factory:spec"]}, "tests.factory:spec: say whether more of it is"),
        ({"metrics": ["nll"], "predictions": "labels"}, "nll needs probabilities, but the page"),
        (
            {"metrics": ["top5"], "data": ["polarity"], "entries": {"B": {"model": "bag"}}},
            "top5 is of more than five classes, and no data set here has so many",
        ),
        (
            {"metrics": ["nll"], "data": ["stsb"], "entries": {"B": {"model": "bag"}}},
            "nll is of classes, and no data set here has any",
        ),
    ],
)
def test_metrics_that_nothing_here_can_have_are_told(changes: dict[str, Any], says: str) -> None:
    page = {**PAGE, "entries": {"B": {"model": "mlp"}}, "stages": {}, **changes}
    study = with_arguments(Study.model_validate(page))
    rules = [rule for rule in RULES if rule.name in {"ranking", "class metrics"}]
    breach = next(b for rule in rules for b in rule.breaches(study))
    assert str(breach).startswith(says)


def test_labels_alone_have_macro_f1() -> None:
    changes = {"metrics": ["macro_f1"], "predictions": "labels"}
    assert breaches({"stages": {}, **changes}) == []


SPLIT = [{"name": "digits", "split": "seed"}]
ALONE: dict[str, Any] = {"stages": {}, "data": SPLIT}


def test_a_stage_on_one_split_of_the_same_images_would_leak_whichever_of_them_is_drawn() -> None:
    stages = {"first": {"data": SPLIT[0]}}
    assert breaches({"stages": stages, "seeds": [3]})[0] == ("splits", ("entries", "A", "start"))
    stages = {"first": {"data": {"name": "digits", "split": "validation"}}}
    assert breaches({"stages": stages})[0] == ("splits", ("entries", "A", "start"))


def test_an_entry_has_no_split_of_its_own() -> None:
    own = {"B": {"model": "mlp", "data": ["digits"]}, "C": {"model": "lenet"}}
    study = with_arguments(Study.model_validate(PAGE | ALONE | {"entries": own}))
    found = [(rule.name, breach.at) for rule in RULES for breach in rule.breaches(study)]
    assert found == [("splits", ("entries", "B", "data"))]


def test_a_search_on_splits_of_seeds_is_to_be_repeated() -> None:
    search = {"trials": 2, "space": LR}
    assert breaches(ALONE | {"search": search}) == [("repeated", ("data", 0, "split"))]
    assert breaches(ALONE | {"search": search | {"repeat": 6}, "seeds": 6}) == []
    validation = {"data": [{"name": "digits", "split": "validation"}]}
    assert breaches(ALONE | validation | {"search": search}) == []


def test_no_repetition_of_a_search_tries_a_seed_of_the_final_runs() -> None:
    search = {"trials": 2, "space": LR, "seeds": [10], "repeat": 6}
    fresh = {"stages": {}, "seeds": [0, 1, 2, 3, 4, 5]}
    assert breaches(fresh | {"search": search}) == []
    spent = fresh | {"seeds": [0, 1, 2, 3, 4, 14]}
    assert breaches(spent | {"search": search}) == [("fresh seeds", ("search", "seeds"))]


def test_a_margin_is_a_difference_of_the_first_metric():
    at = ("margin",)
    assert breaches({"margin": 0.0}) == breaches({"margin": -1}) == [("margin", at)]
    assert breaches({"margin": {"digits": 0.0}}) == [("margin", ("margin", "digits"))]
    assert breaches({"margin": {"digits": 0.5, "accuracy": 1}}) == []
    study = Study.model_validate(PAGE | {"margin": {"digits": 0.5, "accuracy": 1}})
    assert study.margin_on("digits", "accuracy") == 0.5
    assert study.margin_on("mean of 2 data sets", "accuracy") == 1
    assert study.margin_on("digits", "f1") == 0.5
    assert study.margin_on("x", "f1") is None
    assert Study.model_validate(PAGE).margin_on("digits", "accuracy") is None
    with pytest.raises(ValueError, match="margin"):
        Study.model_validate(PAGE | {"margin": "half a point"})
