"""Stages of a study: what is trained first, so that the runs of its entries can start from it.

    stages:
      pretrain: {data: bookcorpus, recipe: {epochs: 1}}
      pairs: {data: bookcorpus-nsp, recipe: {epochs: 1}, start: pretrain}
    entries:
      gMLP: {model: gmlp-text, start: pairs}

Each entry pre-trains the model that it is, with its own arguments, unless the stage names another.
A stage has a recipe and a seed of its own: nothing of the study's recipe is laid under it.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator

from lightning_bench.bench.errors import UserError, nearest
from lightning_bench.bench.spec import DataSpec, ModelSpec, Recipe, RunSpec, Scalar, Settings
from lightning_bench.bench.study import compatibility
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.bench.study.page import Where
from lightning_bench.data.catalogue.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import catalogue as model_catalogue


class Stage(Settings):
    """A training that others start from; it may itself start from another stage."""

    data: DataSpec
    recipe: Recipe = Recipe()
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    model: Annotated[str, Field(description="by default that of the entry")] = ""
    args: Annotated[dict[str, Scalar], Field(description="laid over those of the entry")] = {}
    start: str = ""
    weights: str = ""
    shown: Annotated[
        bool, Field(description="on its data its own result stands for what starts from it")
    ] = False

    @field_validator("data", mode="before")
    @classmethod
    def _name(cls, value: Any) -> Any:
        """`data: digits` is short for `data: {name: digits}`."""
        return {"name": value} if isinstance(value, str) else value


def model_of(stage: Stage, above: ModelSpec) -> ModelSpec:
    """The model that a stage trains for the model that starts from it."""
    args = stage.args if stage.model else {**above.args, **stage.args}
    name = stage.model or above.name
    # Only now is it known which arguments are at their defaults.
    return ModelSpec(
        name=name, args=model_catalogue.check_arguments(model_catalogue.find(name), args)
    )


def spec_of(stages: Mapping[str, Stage], name: str, above: ModelSpec) -> RunSpec | None:
    """The run of the stage of this name that a model starts from; None without a name."""
    if not name:
        return None
    stage = stages[name]
    model = model_of(stage, above)
    return RunSpec(
        model=model,
        data=stage.data,
        recipe=stage.recipe,
        seed=stage.seed,
        start=spec_of(stages, stage.start, model),
        weights=stage.weights,
    )


def shown(
    stages: Mapping[str, Stage], name: str, start: RunSpec | None, data: DataSpec
) -> RunSpec | None:
    """The run among those of a lineage that is itself an entry's result on this data."""
    while start is not None:
        if stages[name].shown and start.data == data:
            return start
        name, start = stages[name].start, start.start
    return None


def before(
    stages: Mapping[str, Stage], name: str, above: ModelSpec, by: str
) -> Iterator[tuple[str, str, RunSpec]]:
    """What is run before a model that starts from this stage, first things first.

    Each with what a plan calls it, `pretrain (gMLP)` or, where the stage names its model,
    `pretrain`, and with its data set.
    """
    spec = spec_of(stages, name, above)
    if spec is None:
        return
    stage = stages[name]
    yield from before(stages, stage.start, spec.model, name if stage.model else by)
    yield (name if stage.model else f"{name} ({by})"), stage.data.name, spec


def check(
    stages: Mapping[str, Stage],
    entry: ModelSpec,
    origin: tuple[str, str],
    read: list[DataSet],
    inside: Where,
    where: Where,
) -> None:
    """Hold what an entry starts from, all the way down, against what it is and reads.

    `origin` is the entry's `start` and `weights`; `inside` tells places of the entry, `where` of
    the page.
    """
    (start, weights), seen = origin, list[str]()
    while True:
        if start and weights:
            raise UserError(f"{inside(('weights',))}: it starts from a stage or from weights")
        if weights and "weights" in model_catalogue.find(entry.name).arguments:
            raise UserError(
                f"{inside(('weights',))}: {entry.name} takes them as args: {{weights: {weights}}}"
            )
        if not start:
            return
        if start not in stages:
            raise UserError(f"{inside(('start',))}: no stage {start!r}{nearest(start, stages)}")
        if start in seen:
            raise UserError(f"{inside(('start',))}: {' → '.join([*seen, start])} is a circle")
        seen.append(start)
        stage, inside = stages[start], _inside(where, start)
        try:
            before = dataset_of(stage.data)
        except DataError as error:
            raise UserError(f"{inside(('data',))}: {error}") from None
        try:
            below = model_of(stage, entry)
        except ModelError as error:
            raise UserError(
                f"{inside(('model',) if stage.model else ('args',))}: {error}"
            ) from None
        _check_stage(stage, below, before, inside)
        for after in read:
            module = model_catalogue.find(entry.name).module
            if problem := compatibility.unfit_start(before, after, module):
                raise UserError(f"{inside(('data',))}: {problem}")
        entry, read, start, weights = below, [before], stage.start, stage.weights


def check_used(stages: Mapping[str, Stage], starts: list[str], where: Where) -> None:
    """A stage that nothing starts from is a mistake."""
    used = set[str]()
    for start in starts:
        while start and start not in used:
            used.add(start)
            start = stages[start].start
    for name in sorted(stages.keys() - used):
        raise UserError(f"{where(('stages', name))}: nothing starts from the stage {name!r}")


def _check_stage(stage: Stage, model: ModelSpec, dataset: DataSet, inside: Where) -> None:
    for name in dataset.facts().keys() & model.args.keys():
        raise UserError(f"{inside(('args', name))}: {name!r} comes from the data set")
    kind = model_catalogue.find(model.name).kind
    if kind != dataset.kind:
        raise UserError(
            f"{inside(('data',))}: {model.name} reads {kind}s, "
            f"but {dataset.name} is a data set of {dataset.kind}s"
        )
    for name in compatibility.without_effect(dataset, stage.recipe):
        raise UserError(
            f"{inside(('recipe', name))}: nothing is done with {name} on {dataset.name}"
        )
    if not stage.recipe.epochs:
        raise UserError(f"{inside(('recipe', 'epochs'))}: 0 epochs train nothing to start from")


def _inside(where: Where, name: str) -> Where:
    return lambda at: where(("stages", name, *at))


def told(stages: Mapping[str, Stage], starts: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """In words what each stage is and who starts from it; `starts` as `check` has them, by entry.

    Published weights are told by their own names.
    """
    found: dict[str, str] = {}
    for name, stage in stages.items():
        recipe = stage.recipe.model_dump(exclude_unset=True)
        parts = [stage.data.name, f"seed {stage.seed}"]
        parts += [f"{key.replace('_', ' ')} {value}" for key, value in recipe.items()]
        if stage.model:
            parts.append(f"of {stage.model}")
        if stage.start or stage.weights:
            parts.append(f"itself from {stage.start or stage.weights}")
        found[name] = ", ".join(parts)
    origins: dict[str, list[str]] = {}
    for label, (start, weights) in starts.items():
        if start or weights:
            origins.setdefault(start or weights, []).append(label)
    return {
        origin: "; ".join(filter(None, [found.get(origin, ""), f"start of {', '.join(labels)}"]))
        for origin, labels in origins.items()
    } | {name: text for name, text in found.items() if name not in origins}
