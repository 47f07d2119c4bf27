"""The search of a study held against its entries and data, before anything starts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.spec import Recipe
from lightning_bench.bench.study import compatibility
from lightning_bench.bench.study.page import Where
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import ARGS, BadSpace, Parameter, Space, resolve
from lightning_bench.data.catalogue.dataset import DataSet
from lightning_bench.models.registry import catalogue as model_catalogue

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Entry, Study


def space_of(search: Search, entry: "Entry", recipe: Recipe, read: list[DataSet]) -> Space:
    """An entry's space; what is shared and would do nothing on its data is left out of it."""
    known = model_catalogue.find(entry.model).arguments
    shared = {
        key: parameter
        for key, parameter in search.space.items()
        if not (parameter and _useless(key, parameter, recipe, read))
    }
    space = resolve(shared, entry.space, recipe, entry.args, known, set(read[0].facts()))
    for name, parameter in space.parameters.items():
        if dataset := _useless(name, parameter, recipe, read):
            raise BadSpace(name, f"nothing is done with {name} on {dataset}")
        # An argument with a fraction, as dropout, is no size.
        sized = name.startswith(ARGS) and known[name.removeprefix(ARGS)].kind != "float"
        if sized and (origin := _origin(entry)):
            raise BadSpace(
                name, f"{name} is fixed by the weights of {origin}, which it starts from"
            )
    if search.sampler == "grid":
        _check_grid(search, space)
    return space


def check(study: "Study", read: Mapping[str, list[DataSet]], where: Where) -> None:
    """Find the first mistake in a study's search; a UserError says where it stands."""
    search = study.search
    if search is None:
        for label, entry in study.entries.items():
            if entry.space:
                at = where(("entries", label, "space"))
                raise UserError(f"{at}: a space needs a `search:` in the page, with its trials")
        return
    if both := sorted(set(search.seeds) & set(study.seeds)):
        at = where(("search", "seeds"))
        raise UserError(
            f"{at}: seed {both[0]} is one of the final runs', which must be fresh; "
            "leave search.seeds out, or give others"
        )
    used: set[str] = set()
    for label, entry in study.entries.items():
        try:
            space = space_of(search, entry, study.recipe_of(label), read[label])
        except BadSpace as mistake:
            at = _place(mistake.key, label, entry, search, where)
            raise UserError(f"{at}: {label}: {mistake}") from None
        used |= space.parameters.keys()
    for key, parameter in search.space.items():
        if parameter and key.removeprefix("recipe.") not in used:
            at = where(("search", "space", key))
            raise UserError(f"{at}: {key} is no hyperparameter of any entry here, or does nothing")


def _place(key: str, label: str, entry: "Entry", search: Search, where: Where) -> str:
    """Where a key of a space stands, by either of its names."""
    for name in (key, f"recipe.{key}"):
        if name in entry.space:
            return where(("entries", label, "space", name))
        if name in search.space:
            return where(("search", "space", name))
    return where(("entries", label))


def _origin(entry: "Entry") -> str:
    """What an entry takes its weights from; empty where it starts afresh."""
    return entry.start or entry.weights or str(entry.args.get("weights") or "")


def _useless(key: str, parameter: Parameter, recipe: Recipe, read: list[DataSet]) -> str:
    """A data set on which the setting does nothing; empty where there is none."""
    name = key.removeprefix("recipe.")
    if name not in Recipe.model_fields:
        return ""
    for value in parameter.bounds():
        try:
            changed = Recipe.model_validate(recipe.model_dump() | {name: value})
        except ValueError:
            continue  # `resolve` says what is wrong with it
        for dataset in read:
            if name in compatibility.without_effect(dataset, changed):
                return dataset.name
    return ""


def _check_grid(search: Search, space: Space) -> None:
    for name, parameter in space.parameters.items():
        if parameter.grid() is None:
            raise BadSpace(name, f"a grid needs values to count: give {name} a step or choices")
    size = space.grid_size() or 0
    if search.trials > size + 1:
        raise BadSpace(
            "", f"its grid has {size} points: too few for {search.trials} trials, one the recipe's"
        )
