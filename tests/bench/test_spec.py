"""The key: blind to spelling, awake to every value that matters."""

from typing import Any, get_args

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import assume, given
from pydantic import ValidationError

from lightning_bench.bench.spec import Precision, Recipe, RunSpec
from lightning_bench.bench.study.load import load
from lightning_bench.models.tasks.optimizer_names import OPTIMIZERS
from tests import factory

fractions = st.floats(0, 1, exclude_max=True)
RECIPE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "epochs": st.integers(0, 1000),
    "batch_size": st.integers(1, 10_000),
    "optimizer": st.sampled_from([*OPTIMIZERS, "timm/lion", "module:make"]),
    "lr": st.floats(1e-9, 10),
    "weight_decay": st.floats(0, 10),
    "momentum": fractions,
    "beta1": fractions,
    "beta2": fractions,
    "schedule": st.sampled_from(["constant", "linear", "cosine", "triangle"]),
    "warmup": st.floats(0, 1),
    "clip_norm": st.none() | st.floats(1e-3, 100),
    "label_smoothing": fractions,
    "crop": st.integers(0, 64),
    "flip": st.booleans(),
    "resized_crop": st.floats(0, 1),
    "randaugment": st.integers(0, 30),
    "erasing": st.floats(0, 1),
    "mixup": st.floats(0, 4),
    "cutmix": st.floats(0, 4),
    "whole_words": st.booleans(),
    "precision": st.sampled_from(get_args(Precision)),
    "loss_scale": st.floats(1, 2**24),
    "layer_decay": st.floats(0, 1, exclude_min=True),
    "ema": fractions,
    "freeze": st.booleans(),
    "steps": st.none(),  # instead of epochs
    "accumulate": st.integers(1, 64),
    "loss": st.sampled_from(["", "focal", "module:loss"]),
    "loss_args": st.just({}),
    "optimizer_args": st.just({}),
    "schedule_args": st.just({}),
    "groups": st.sampled_from([(), ({"match": "head", "lr": 2.0},)]),
    "class_weights": st.sampled_from(["", "balanced", (1.0, 2.0)]),
}
recipes = st.fixed_dictionaries({}, optional=RECIPE_VALUES)
seeds = st.integers(0, 2**32 - 1)


def spec(recipe: dict[str, Any], seed: int = 0, **model: Any) -> RunSpec:
    return factory.spec(recipe=recipe, seed=seed, **model)


def test_every_recipe_field_is_drawn() -> None:
    assert RECIPE_VALUES.keys() == Recipe.model_fields.keys()


@given(recipes, seeds, st.randoms())
def test_order_of_keys_does_not_matter(recipe: dict[str, Any], seed: int, random: Any) -> None:
    shuffled = list(recipe.items())
    random.shuffle(shuffled)
    args = {"width": 3, "depth": 4}
    reversed_args = dict(reversed(args.items()))
    first, second = spec(recipe, seed, args=args), spec(dict(shuffled), seed, args=reversed_args)
    assert first.key == second.key


@given(recipes, seeds)
def test_defaults_may_be_written_or_left_out(recipe: dict[str, Any], seed: int) -> None:
    left_out = spec(recipe, seed)
    written = Recipe().model_dump() | recipe
    assert spec(written, seed).key == left_out.key
    assert RunSpec.model_validate_json(left_out.model_dump_json()).key == left_out.key


@given(recipes, st.sampled_from(sorted(RECIPE_VALUES)), st.data())
def test_every_recipe_value_matters(recipe: dict[str, Any], name: str, data: st.DataObject) -> None:
    after = data.draw(RECIPE_VALUES[name])
    assume(getattr(Recipe(**recipe | {name: after}), name) != getattr(Recipe(**recipe), name))
    assert spec(recipe).key != spec(recipe | {name: after}).key


@given(seeds, seeds)
def test_seeds_matter(one: int, other: int) -> None:
    assert (spec({}, one).key == spec({}, other).key) == (one == other)


@given(st.dictionaries(st.text(min_size=1), st.integers() | st.booleans() | st.text(), min_size=1))
def test_arguments_matter(args: dict[str, Any]) -> None:
    assert spec({}, args=args).key != spec({}).key
    for name in args:
        changed = {k: v for k, v in args.items() if k != name}
        assert spec({}, args=changed).key != spec({}, args=args).key


def test_a_changed_copy_has_a_key_of_its_own() -> None:
    first = spec({})
    assert first.key != first.model_copy(update={"seed": 1}).key


def test_names_matter() -> None:
    specs = [factory.SPEC, factory.spec("vit"), factory.spec("mlp", "mnist")]
    assert len({one.key for one in specs}) == 3


def test_one_and_true_and_one_point_zero_differ_as_arguments() -> None:
    # Which of them a model takes is the catalogue's business; the key mixes none of them up.
    keys = {spec({}, args={"x": value}).key for value in (1, True, 1.0, "1", None)}
    assert len(keys) == 5


def test_minus_zero_is_zero() -> None:
    assert spec({"weight_decay": -0.0}).key == spec({"weight_decay": 0.0}).key


PAGE = {
    "title": "t",
    "question": "q",
    "data": ["digits"],
    "entries": {"A": {"model": "mlp", "args": {"width": 16}}, "B": {"model": "lenet"}},
    "seeds": 2,
    "recipe": {"epochs": 1},
    "scales": {"smoke": {}},
}


def keys(page: Any, text: dict[str, Any], settings: tuple[str, ...] = ()) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run in load(page(yaml.safe_dump(text, sort_keys=False)), None, settings).runs():
        found.setdefault(run.entry, []).append(run.spec.key)
    return found


@given(st.permutations(sorted(PAGE)), st.permutations(["A", "B"]))
def test_order_of_the_page_does_not_matter(page, order: list[str], entries: list[str]) -> None:
    shuffled = {name: PAGE[name] for name in order}
    shuffled["entries"] = {label: PAGE["entries"][label] for label in entries}
    assert keys(page, shuffled) == keys(page, PAGE)


SETTINGS = ("recipe.lr=0.01", "recipe.epochs=3", "seeds=[7, 9]", "entries.A.args.depth=3")


@given(st.permutations(SETTINGS))
def test_order_of_the_command_line_does_not_matter(page, order: list[str]) -> None:
    found = keys(page, PAGE, tuple(order))
    assert found == keys(page, PAGE, SETTINGS)
    assert set(found["A"]).isdisjoint(keys(page, PAGE)["A"])


@given(st.integers(1, 64))
def test_threads_and_labels_are_no_part_of_a_key(page, threads: int) -> None:
    plain = keys(page, PAGE)
    assert keys(page, PAGE | {"threads": threads, "title": "other"}) == plain
    renamed = PAGE | {"entries": {"C": {"model": "mlp", "args": {"width": 16}, "group": "g"}}}
    assert keys(page, renamed)["C"] == plain["A"]


def test_model_defaults_may_be_written_or_left_out(page) -> None:
    written = {"width": 16, "depth": 2, "bias": True}
    text = PAGE | {"entries": {"A": {"model": "mlp", "args": written}}}
    assert keys(page, text)["A"] == keys(page, PAGE)["A"]


def test_released_defaults_never_change() -> None:
    """They are left out of the canonical form, so a changed default would re-use old keys."""
    assert Recipe().model_dump() == {
        "epochs": 10,
        "batch_size": 64,
        "optimizer": "adamw",
        "lr": 1e-3,
        "weight_decay": 0.0,
        "momentum": 0.9,
        "beta1": 0.9,
        "beta2": 0.999,
        "schedule": "cosine",
        "warmup": 0.0,
        "clip_norm": None,
        "label_smoothing": 0.0,
        "crop": 0,
        "flip": False,
        "resized_crop": 0.0,
        "randaugment": 0,
        "erasing": 0.0,
        "mixup": 0.0,
        "cutmix": 0.0,
        "whole_words": False,
        "precision": "fp32",
        "loss_scale": 65536.0,
        "layer_decay": 1.0,
        "ema": 0.0,
        "freeze": False,
        "accumulate": 1,
        "steps": None,
        "loss": "",
        "loss_args": {},
        "class_weights": "",
        "optimizer_args": {},
        "schedule_args": {},
        "groups": (),
    }
    assert spec({"lr": 0.01}, 3, args={"width": 16}).key == "0a581474f1f0b1f717aa"


@pytest.mark.parametrize(
    "wrong",
    [{"epochs": -1}, {"epochs": 1.5}, {"epochs": "3"}, {"lr": float("inf")}, {"epoch": 3}],
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Recipe(**wrong)


def test_steps_stand_in_the_place_of_epochs() -> None:
    """125,000 steps are so many, however large the corpus is."""
    recipe = Recipe(steps=125_000)
    assert recipe.length(30_500) == (5, 125_000)
    assert Recipe(epochs=9).length(30_500) == (9, 274_500)
    assert spec(recipe.model_dump(exclude_defaults=True), 0).key != spec({}, 0).key
    with pytest.raises(ValidationError, match="epochs or steps"):
        Recipe(steps=5, epochs=3)
