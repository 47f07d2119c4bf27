"""Search cell: the search of one entry on one data set, as plain data; pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_bench.bench.spec import Recipe, RunSpec, Scalar, Source, canonical_json
from lightning_bench.bench.study import compatibility
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import (
    ARGS,
    BadSpace,
    Parameter,
    Space,
    apply,
    merge_spaces,
)
from lightning_bench.data import catalogue as data_catalogue
from lightning_bench.data.dataset import DataSet
from lightning_bench.models.registry.arguments import Argument

if TYPE_CHECKING:
    from lightning_bench.bench.study.resolved import ResolvedEntry
    from lightning_bench.bench.study.study import Entry


#: A grid is listed as a whole, when its search begins.
MOST_POINTS = 100_000
#: Entry, data set, and which search of a repeated one it is.
SearchName = tuple[str, str, int | None]


@dataclass(frozen=True)
class Cell:
    """One search: its entry, data set, metric, base run and search space."""

    study: str  # with its scale
    entry: str
    dataset: str
    metric: str
    base: RunSpec  # with the entry's own recipe and arguments
    space: Space
    search: Search
    known: Mapping[str, Argument]
    repeat: int | None = None  # which of several searches this is
    higher: bool | None = None  # whether more is better, of a metric that the page names
    final_seed: int | None = None  # of the one run with what it chooses

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the metric is better."""
        return data_catalogue.HIGHER_IS_BETTER[self.metric] if self.higher is None else self.higher

    @cached_property
    def digest(self) -> str:
        """A hash of what decides the trials; a larger budget goes on with the same ones."""
        parts: dict[str, Any] = {
            "base": self.base.model_dump(mode="json", exclude_defaults=True),
            "space": {
                name: parameter.model_dump(mode="json", exclude_defaults=True)
                for name, parameter in self.space.parameters.items()
            },
            "search": self.search.model_dump(
                mode="json",
                exclude_defaults=True,
                exclude={"trials", "device_h", "space", "cost_at_most"},
            ),
            "metric": self.metric,
        }
        if self._trial_seeds:
            parts["split"] = self._trial_seeds["split"]
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:10]

    @property
    def _trial_seeds(self) -> dict[Source, int]:
        """What of a trial goes by the final seed: the split, so that no trial sees its test."""
        drawn = self.base.data.split != "fixed" and self.final_seed is not None
        return {"split": self.final_seed or 0} if drawn else {}

    @property
    def place(self) -> SearchName:
        """Which search of the study it is."""
        return self.entry, self.dataset, self.repeat

    @property
    def name(self) -> str:
        """The Optuna study's name."""
        return f"{self.study}/{self.entry}/{self.dataset}/{self.digest}"

    def folder(self, store: Path) -> Path:
        """Where its trials lie in a store."""
        words = "-".join([self.entry, self.dataset]).lower()
        plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in words)
        return searches(store, self.study) / f"{plain[:60]}-{self.digest}"

    def extremes(self, *names: str) -> list[Recipe]:
        """The recipes at all ends and choices of these settings that can be drawn together."""
        recipes = []
        ends = [
            [(name, value) for value in self.space.parameters[name].bounds()]
            for name in names
            if name in self.space.parameters
        ]
        for pairs in product(*ends):
            values = {name: v for name, v in pairs if self.space.active(name, dict(pairs))}
            recipes.append(apply(values, self.base.recipe, {}, {})[0])
        return recipes

    def spec(self, values: Mapping[str, Scalar], seed: int, *, tested: bool) -> RunSpec:
        """The run with these values: a trial's, or once they are frozen, a final one."""
        recipe, args = apply(values, self.base.recipe, self.base.model.args, self.known)
        model = self.base.model.model_copy(update={"args": args})
        changes = {"model": model, "recipe": recipe, "seed": seed, "tested": tested}
        if not tested:
            changes["source_seeds"] = self._trial_seeds
        return self.base.model_copy(update=changes)


def searches(store: Path, study: str) -> Path:
    """Where the searches of a study at one scale lie in a store."""
    return store / "searches" / study


def space_of(search: Search, entry: "ResolvedEntry") -> Space:
    """An entry's space; what is shared and would do nothing on its data is left out of it."""
    known = entry.variant.arguments
    read = [dataset for _, dataset in entry.data.values()]
    shared = {
        key: parameter
        for key, parameter in search.space.items()
        if not (parameter and _useless(key, parameter, entry.recipe, read))
        and not _is_its_own(key, entry)
    }
    space = merge_spaces(
        shared, entry.page.space, entry.recipe, entry.model.args, known, set(read[0].facts())
    )
    for name, parameter in space.parameters.items():
        if _is_its_own(name, entry):
            raise BadSpace(name, f"{name} means nothing here: the module trains itself")
        if dataset := _useless(name, parameter, entry.recipe, read):
            raise BadSpace(name, f"{name} has no effect on {dataset}")
        # An argument with a fraction, as dropout, is no size.
        argument = known.get(name.removeprefix(ARGS)) if name.startswith(ARGS) else None
        sized = argument is not None and argument.kind != "float"
        if sized and (origin := _origin(entry.page)):
            raise BadSpace(
                name, f"{name} is fixed by the weights of {origin}, which it starts from"
            )
    if search.sampler == "grid":
        _check_grid(search, space)
    return space


def _is_its_own(key: str, entry: "ResolvedEntry") -> bool:
    """Whether a setting of the recipe is up to the entry's own LightningModule."""
    name = key.removeprefix("recipe.")
    own = Recipe.model_fields.keys() - compatibility.OF_OWN_TRAINING
    return entry.variant.form == "lightning" and name in own


def _origin(entry: "Entry") -> str:
    """The stage or published weights that an entry starts from; empty where it starts afresh."""
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
            continue  # `merge_spaces` says what is wrong with it
        for dataset in read:
            if name in compatibility.without_effect(dataset, changed):
                return dataset.name
    return ""


def _check_grid(search: Search, space: Space) -> None:
    for name, parameter in space.parameters.items():
        if parameter.grid_size() is None:
            raise BadSpace(name, f"a grid needs values to count: give {name} a step or choices")
    size = space.grid_size() or 0
    if size > MOST_POINTS:
        raise BadSpace("", f"its grid has {size:,} points; at most {MOST_POINTS:,} are listed")
    if search.trials > size + 1:
        raise BadSpace(
            "", f"its grid has {size} points: too few for {search.trials} trials, one the recipe's"
        )
