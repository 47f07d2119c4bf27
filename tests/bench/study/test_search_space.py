"""Spaces: what a page may say of them, and every mistake as one line with its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.spec import Recipe
from lightning_bench.bench.study.load import load
from lightning_bench.bench.study.search_space import BadSpace, Parameter, apply, merge_spaces

PAGE = """\
title: t
question: q
data: [digits]
entries:
  MLP:
    model: mlp
    args: {width: 16}
    space:
      args.depth: {int: [1, 3]}
  LeNet: {model: lenet}
seeds: 2
recipe: {epochs: 4, lr: 3e-3, weight_decay: 0.01}
search:
  trials: 6
  sampler: random
  pruner: none
  space:
    lr: {float: [1e-4, 1e-1], log: true}
    weight_decay: {float: [0, 0.1]}
    optimizer: {choice: [sgd, adamw]}
    momentum: {float: [0.5, 0.99], when: {optimizer: sgd}}
scales: {smoke: {}}
"""


def test_each_entry_has_the_shared_space_and_its_own(page) -> None:
    mlp, lenet = load(page(PAGE)).cells()
    assert set(lenet.space.parameters) == {"lr", "weight_decay", "optimizer", "momentum"}
    assert set(mlp.space.parameters) == {*lenet.space.parameters, "args.depth"}
    # The first trial is the recipe's own values, the model's defaults among them.
    own = {"lr": 0.003, "weight_decay": 0.01, "optimizer": "adamw", "args.depth": 2}
    assert mlp.space.own() == own


def test_an_entry_takes_a_parameter_out_or_narrows_it(page) -> None:
    changed = PAGE.replace("args.depth: {int: [1, 3]}", "recipe.lr: {float: [1e-3, 1e-2]}", 1)
    mlp, _ = load(page(changed)).cells()
    assert str(mlp.space.parameters["lr"]) == "0.001 to 0.01"
    without = PAGE.replace("args.depth: {int: [1, 3]}", "weight_decay: null", 1)
    mlp, lenet = load(page(without)).cells()
    assert "weight_decay" not in mlp.space.parameters
    assert "weight_decay" in lenet.space.parameters


def test_a_parameter_has_a_part_only_where_its_condition_holds(page) -> None:
    space = load(page(PAGE)).cells()[1].space
    assert space.active("momentum", {"optimizer": "sgd"})
    assert not space.active("momentum", {"optimizer": "adamw"})
    # Where the setting is not tuned itself, the recipe's value decides, once and for all.
    fixed = PAGE.replace("    optimizer: {choice: [sgd, adamw]}\n", "")
    assert "momentum" not in load(page(fixed)).cells()[1].space.own()


def test_conditions_come_behind_what_they_ask_for(page) -> None:
    lines = PAGE.splitlines(keepends=True)
    momentum = next(line for line in lines if "momentum" in line)
    lines.remove(momentum)
    lines.insert(lines.index("  space:\n") + 1, momentum)
    names = list(load(page("".join(lines))).cells()[1].space.parameters)
    assert names.index("optimizer") < names.index("momentum")


def test_final_runs_are_ordinary_runs_with_the_chosen_values(page) -> None:
    study = load(page(PAGE))
    assert study.runs() == []
    values = {"lr": 0.02, "optimizer": "sgd", "momentum": 0.7, "args.depth": 2}
    runs = study.runs({("MLP", "digits", None): values})
    assert [(run.entry, run.spec.seed, run.spec.tested) for run in runs] == [
        ("MLP", 0, True),
        ("MLP", 1, True),
    ]
    by_hand = PAGE.split("search:")[0] + "scales: {smoke: {}}\n"
    tuned, chosen = "space:\n      args.depth: {int: [1, 3]}", "recipe: {lr: 0.02, momentum: 0.7}"
    assert tuned in by_hand
    by_hand = by_hand.replace(tuned, chosen).replace("epochs: 4", "epochs: 4, optimizer: sgd")
    ordinary = [run for run in load(page(by_hand, "hand.yaml")).runs() if run.entry == "MLP"]
    # An argument at its default is left out, so that the keys are the same.
    assert [run.key for run in runs] == [run.key for run in ordinary]


def test_a_larger_budget_goes_on_and_another_question_does_not(page) -> None:
    def digest(*settings: str) -> str:
        return load(page(PAGE), None, settings).cells()[0].digest

    same = digest()
    assert digest("search.trials=60") == digest("search.device_h=1") == digest("seeds=9") == same
    changes = ["search.seed=1", "search.pruner=median", "search.sampler=tpe", "search.seeds=2"]
    for setting in [*changes, "recipe.epochs=5", "entries.MLP.args.width=17"]:
        assert digest(setting) != same, setting


MISTAKES = [
    (
        "float: [1e-4, 1e-1], log",
        "flaot: [1e-4, 1e-1], log",
        r":18: .*unknown distribution 'flaot'; did you mean 'float'",
    ),
    ("[1e-4, 1e-1]", "[1e-1, 1e-4]", ":18: .*low 0.1 is above high 0.0001"),
    ("[1e-4, 1e-1]", "[0.1, 0.1]", ":18: .*low 0.1 equals high"),
    ("[1e-4, 1e-1]", "[0, 1e-1]", ":18: .*a log scale needs a low above 0, not 0"),
    ("[1e-4, 1e-1]", "[1e-4]", r":18: .*float takes \[low, high\], two numbers"),
    ("[1e-4, 1e-1]", "[low, high]", r":18: .*float takes \[low, high\]"),
    ("log: true}", "log: true, step: 0.1}", ":18: .*a log scale has no step"),
    ("log: true}", "lg: true}", r":18: .*unknown key 'lg'; did you mean 'log'"),
    ("[0, 0.1]}", "[0, 0.1], step: 0.03}", ":19: .*steps of 0.03 from 0 never reach 0.1"),
    ("[0, 0.1]}", "[0, 0.1], step: -1}", ":19: .*step -1 is no step"),
    ("[1, 3]", "[1, 3.5]", r":9: .*int takes \[low, high\]"),
    ("[1, 3]", "[3, 1]", ":9: .*low 3 is above high 1"),
    ("[1, 3]", "[0, 3]", None),
    ("[1, 3]}", "[1, 3], step: 0.5}", ":9: .*no step of ints"),
    (
        "[1, 3]",
        "[4, 9]",
        ":9: .*MLP: the first trial is the recipe's own args.depth 2, which is not 4 to 9",
    ),
    (
        "args.depth",
        "args.dept",
        r":9: .*'args.dept' is no hyperparameter of this model.*did you mean 'args.depth'",
    ),
    ("args.depth", "depth", r":9: .*'depth' is no hyperparameter.*did you mean args.depth\?"),
    ("args.depth", "args.classes", ":9: .*'classes' comes from the data set"),
    (
        "args.depth: {int: [1, 3]}",
        "args.depth: {choice: [2, deep]}",
        ":9: .*args.depth can't be deep: .*an integer",
    ),
    ("lr: {float", "lrr: {float", r":18: .*'lrr' is no hyperparameter.*did you mean 'lr'"),
    (
        "weight_decay: {float: [0",
        "weight_decay: {float: [-1",
        ":19: .*weight_decay can't be -1.0: .*greater than or equal to 0",
    ),
    (
        "weight_decay: {float: [0, 0.1]}",
        "batch_size: {float: [8, 64]}",
        ":19: .*batch_size can't be 8.0: .*valid integer",
    ),
    ("[sgd, adamw]", "[sgdd, adamw]", ":20: .*optimizer can't be sgdd"),
    ("[sgd, adamw]", "[adamw]", ":20: .*choice takes a list of two values or more"),
    ("[sgd, adamw]", "[adamw, adamw]", ":20: .*a choice is given twice"),
    ("[sgd, adamw]}", "[sgd, adamw], log: true}", ":20: .*a choice has no log"),
    ("[sgd, adamw]", "[sgd, adam]", ":20: .*own optimizer adamw, which is not one of sgd, adam"),
    (
        "when: {optimizer: sgd}",
        "when: {optimiser: sgd}",
        r":21: .*'optimiser' is no hyper.*did you mean 'optimizer'",
    ),
    (
        "when: {optimizer: sgd}",
        "when: {optimizer: adam}",
        ":21: .*optimizer is never adam, but one of",
    ),
    ("when: {optimizer: sgd}", "when: sgd", ":21: .*when is a mapping"),
    ("when: {optimizer: sgd}", "when: {momentum: 0.9}", ":21: .*momentum needs momentum: a circle"),
    (
        "weight_decay: {float: [0, 0.1]}",
        "whole_words: {choice: [true, false]}",
        ":19: whole_words is no hyperparameter of any entry here",
    ),
    (
        "weight_decay: {float: [0, 0.1]}",
        "args.dept: {int: [1, 3]}",
        ":19: args.dept is no hyperparameter of any entry here",
    ),
    (
        "args.depth: {int: [1, 3]}",
        "whole_words: {choice: [true, false]}",
        ":9: MLP: whole_words has no effect on digits",
    ),
    ("trials: 6", "trials: 0", ":14: search.trials: .*greater than or equal to 1, not 0"),
    ("trials: 6", "trails: 6", r":14: unknown key 'search.trails'; did you mean 'trials'"),
    (
        "sampler: random",
        "sampler: rnd",
        r":15: search.sampler can't be 'rnd'; did you mean 'random'",
    ),
    ("sampler: random", "sampler: grid", ":18: .*a grid needs values to count: give lr a step"),
    ("sampler: random", "device_h: 0", ":15: search.device_h: .*greater than 0"),
    ("sampler: random", "seeds: [1]", ":15: seed 1 is one of the final runs', which must be fresh"),
    (
        "pruner: none",
        "pruner: hyper",
        r":16: search.pruner can't be 'hyper'; did you mean 'hyperband'",
    ),
    ("pruner: none", "cost: parameters", ":13: search: .*pruners know only one"),
    ("pruner: none", "cost_at_most: 3", ":13: search: .*cost_at_most needs a cost"),
]


@pytest.mark.parametrize(("right", "wrong", "says"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place(page, right: str, wrong: str, says: str) -> None:
    assert right in PAGE
    text = PAGE.replace(right, wrong, 1)
    if says is None:
        load(page(text))  # the model itself may still refuse it: that is a failed trial
        return
    with pytest.raises(UserError, match=says) as caught:
        load(page(text))
    assert "\n" not in str(caught.value)


def test_a_space_without_a_search_is_a_mistake(page) -> None:
    text = PAGE.split("search:")[0] + "scales: {smoke: {}}\n"
    with pytest.raises(UserError, match=":8: a space needs a `search:`"):
        load(page(text))


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("start: before", "the weights of before"),
        ("weights: some/where", "the weights of some/where"),
    ],
)
def test_weights_fix_the_sizes_of_a_model_and_not_its_dropout(page, start: str, says: str) -> None:
    text = f"""\
title: t
question: q
data: [polarity]
stages: {{before: {{data: polarity}}}}
entries:
  Other: {{model: gmlp-text, start: before}}
  gMLP: {{model: gmlp-text, {start}, space: {{args.SETTING}}}}
seeds: 1
search: {{trials: 2, space: {{lr: {{float: [1e-4, 1e-2], log: true}}}}}}
scales: {{smoke: {{}}}}
"""
    with pytest.raises(UserError, match=f":7: gMLP: args.depth is fixed by {says}") as caught:
        load(page(text.replace("SETTING", "depth: {int: [1, 40]}")))
    assert "\n" not in str(caught.value)
    load(page(text.replace("SETTING", "dropout: {float: [0, 0.3]}")))


def test_a_grid_needs_as_many_points_as_trials(page) -> None:
    text = PAGE.replace("sampler: random", "sampler: grid").split("    lr:")[0]
    text += "    optimizer: {choice: [sgd, adamw]}\nscales: {smoke: {}}\n"
    with pytest.raises(UserError, match="LeNet: its grid has 2 points: too few for 6 trials"):
        load(page(text))


def test_a_grid_that_nobody_can_list_is_refused_at_once(page) -> None:
    for space in ("{float: [0.001, 1], step: 1e-12}", "{int: [1, 1000000000000]}"):
        text = PAGE.replace("sampler: random", "sampler: grid").split("    lr:")[0]
        text += f"    epochs: {space}\nscales: {{smoke: {{}}}}\n"
        with pytest.raises(UserError, match=r"epochs|its grid has [\d,]+ points; at most 100,000"):
            load(page(text))


bounds = st.tuples(st.floats(1e-6, 1e3), st.floats(1.01, 1e3)).map(lambda b: (b[0], b[0] * b[1]))


@given(bounds, st.booleans(), st.floats(0, 1))
def test_edges_are_found_on_the_scale_that_is_drawn_from(ends, log: bool, place: float) -> None:
    low, high = ends
    parameter = Parameter.model_validate({"float": [low, high], "log": log})
    value = low * (high / low) ** place if log else low + (high - low) * place
    value = min(max(value, low), high)
    assert parameter.contains(value)
    if 0.03 < place < 0.97:
        assert parameter.edge(value) is None
    if place < 0.01:
        assert parameter.edge(value) == "low"
    if place > 0.99:
        assert parameter.edge(value) == "high"


def test_zero_is_no_edge_and_a_choice_has_none() -> None:
    assert Parameter.model_validate({"float": [0, 0.1]}).edge(0.0) is None
    assert Parameter.model_validate({"float": [0, 0.1]}).edge(0.1) == "high"
    assert Parameter.model_validate({"choice": ["a", "b"]}).edge("a") is None
    assert Parameter.model_validate({"int": [2, 8], "step": 2}).grid() == [2, 4, 6, 8]


def test_arguments_of_an_optimizer_are_searched_behind_its_name() -> None:
    recipe = Recipe(
        optimizer="torch/NAdam", optimizer_args={"momentum_decay": 0.004, "eps": 1e-8}, lr=0.01
    )
    shared = {
        "optimizer_args.momentum_decay": Parameter.model_validate(
            {"float": [0.001, 0.01], "log": True}
        )
    }
    space = merge_spaces(shared, {}, recipe, {}, {}, set())
    assert space.own() == {"optimizer_args.momentum_decay": 0.004}
    changed, _ = apply({"optimizer_args.momentum_decay": 0.002}, recipe, {}, {})
    assert changed.optimizer_args == {"momentum_decay": 0.002, "eps": 1e-8}
    with pytest.raises(BadSpace, match="has no value in the recipe, which is the first trial's"):
        merge_spaces({"optimizer_args.betaa": shared.popitem()[1]}, {}, recipe, {}, {}, set())


def test_optimizers_schedules_and_losses_are_choices() -> None:
    for name, choices in {
        "optimizer": ["adamw", "timm/lion"],
        "schedule": ["cosine", "trapezoid"],
        "loss": ["", "focal"],
        "class_weights": ["", "balanced"],
    }.items():
        shared = {name: Parameter.model_validate({"choice": choices})}
        space = merge_spaces(shared, {}, Recipe(), {}, {}, set())
        assert apply({name: choices[1]}, Recipe(), {}, {})[0].model_dump()[name] == choices[1]
        assert list(space.own()) == [name]
    wrong = {"optimizer": Parameter.model_validate({"choice": ["adamw", "adamww"]})}
    with pytest.raises(BadSpace, match="optimizer can't be adamww"):
        merge_spaces(wrong, {}, Recipe(), {}, {}, set())
