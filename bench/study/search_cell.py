"""Cell: the search of one entry on one data set, as plain data; pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

from lightning_bench.bench.spec import ModelSpec, Recipe, RunSpec, Scalar, canonical_json
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import Space, apply
from lightning_bench.data import catalogue as data_catalogue
from lightning_bench.models.registry.arguments import Argument


@dataclass(frozen=True)
class Cell:
    """What is searched, and all that tells one search from another."""

    study: str  # with its scale
    entry: str
    dataset: str
    metric: str
    base: RunSpec  # with the entry's own recipe and arguments
    space: Space
    search: Search
    known: Mapping[str, Argument]

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the metric is better."""
        return data_catalogue.HIGHER_IS_BETTER[self.metric]

    @cached_property
    def digest(self) -> str:
        """A hash of what decides the trials; a larger budget goes on with the same ones."""
        parts = {
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
        return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:10]

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
        found = []
        ends = [
            [(name, value) for value in self.space.parameters[name].bounds()]
            for name in names
            if name in self.space.parameters
        ]
        for pairs in product(*ends):
            values = {name: v for name, v in pairs if self.space.active(name, dict(pairs))}
            found.append(apply(values, self.base.recipe, {}, {})[0])
        return found

    def spec(self, values: Mapping[str, Scalar], seed: int, *, tested: bool) -> RunSpec:
        """The run with these values: a trial's, or once they are frozen, a final one."""
        recipe, args = apply(values, self.base.recipe, self.base.model.args, self.known)
        model = ModelSpec(name=self.base.model.name, args=args)
        changes = {"model": model, "recipe": recipe, "seed": seed, "tested": tested}
        return self.base.model_copy(update=changes)


def searches(store: Path, study: str) -> Path:
    """Where the searches of a study at one scale lie in a store."""
    return store / "searches" / study
