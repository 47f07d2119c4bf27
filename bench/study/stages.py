"""Stages of a study: what is trained first, so that the runs of its entries can start from it.

    stages:
      pretrain: {data: bookcorpus, recipe: {epochs: 1}}
      pairs: {data: bookcorpus-nsp, recipe: {epochs: 1}, start: pretrain}
    entries:
      gMLP: {model: gmlp-text, start: pairs}

Each entry pre-trains the model that it is, with its own arguments, unless the stage names another.
A stage has a recipe and a seed of its own: nothing of the study's recipe is laid under it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from lightning_bench.bench.spec import DataSpec, ModelSpec, Recipe, RunSpec, Scalar, Settings
from lightning_bench.bench.study.inputs import dataset_at, dataset_of, preprocessed
from lightning_bench.bench.study.page import Location
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.common.messages import nearest
from lightning_bench.data.dataset import DataSet
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import catalogue as model_catalogue
from lightning_bench.models.weights import preprocessing


def _named(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, Mapping) and "source" in value:
        named = {"name": value["source"], "title": value.get("title") or value.get("name", "")}
        return {**{k: v for k, v in value.items() if k != "source"}, **named}
    return value


#: On a page `digits` is short for `{name: digits}`; `{name: tickets, source: table:tickets.csv}`
#: gives a source a name of one's own.
NamedData = Annotated[DataSpec, BeforeValidator(_named)]


class Stage(Settings):
    """A training that others start from; it may itself start from another stage."""

    data: NamedData
    recipe: Recipe = Recipe()
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    model: Annotated[str, Field(description="by default that of the entry")] = ""
    args: Annotated[dict[str, Scalar], Field(description="laid over those of the entry")] = {}
    start: str = ""
    weights: str = ""
    shown: Annotated[
        bool, Field(description="on its data its own result stands for what starts from it")
    ] = False


@dataclass(frozen=True)
class StageRun:
    """A stage's run for one entry, with what the stage's names stand for."""

    name: str
    title: str  # in a plan: `pretrain (gMLP)`, or `pretrain` where the stage names its model
    stage: Stage
    variant: model_catalogue.Entry  # of its model
    dataset: DataSet
    spec: RunSpec
    weights: str  # the published ones that it goes back to


def lineage(
    stages: Mapping[str, Stage],
    start: str,
    above: ModelSpec,
    label: str,
    at: Location,
    later: tuple[str, ...] = (),
) -> list[StageRun]:
    """The runs of the stage `start` and of those before it, in the order of training.

    `above` is the model that starts from it, of the entry or stage `label`, which the page has at
    `at`; `later` are the stages between it and the entry.
    """
    if not start:
        return []
    if start not in stages:
        raise PageError((*at, "start"), f"no stage {start!r}{nearest(start, stages)}")
    if start in later:
        raise PageError((*at, "start"), f"{' → '.join([*later, start])} is a circle")
    stage, at = stages[start], ("stages", start)
    dataset = dataset_at(stage.data, (*at, "data"))
    model, variant = _model(stage, above, dataset, at)
    owner = start if stage.model else label
    before = lineage(stages, stage.start, model, owner, at, (*later, start))
    weights = origin(stage.weights, before, model)
    data = preprocessed(stage.data, weights, trained=True)
    spec = RunSpec(
        model=model,
        data=data,
        recipe=stage.recipe,
        seed=stage.seed,
        start=before[-1].spec if before else None,
        weights=stage.weights,
    )
    title = start if stage.model else f"{start} ({label})"
    return [*before, StageRun(start, title, stage, variant, dataset_of(data), spec, weights)]


def origin(weights: str, before: list[StageRun], model: ModelSpec) -> str:
    """The published weights that a run goes back to, by itself or by a stage before it."""
    if weights or before:
        return weights or before[-1].weights
    return model.name if model.args.get("pretrained") else ""


def _model(
    stage: Stage, above: ModelSpec, dataset: DataSet, at: Location
) -> tuple[ModelSpec, model_catalogue.Entry]:
    """The model that a stage trains for the model that starts from it."""
    args: dict[str, Any] = stage.args if stage.model else {**above.args, **stage.args}
    try:
        variant = model_catalogue.find(stage.model or above.name)
        # Only now is it known which arguments are at their defaults.
        args = model_catalogue.check_arguments(variant, args)
    except ModelError as error:
        raise PageError((*at, "model" if stage.model else "args"), str(error)) from None
    for name in dataset.facts().keys() & args.keys():
        raise PageError((*at, "args", name), f"{name!r} comes from the data set")
    return ModelSpec(name=stage.model or above.name, args=args), variant


def describe(stages: Mapping[str, Stage], origins: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Each stage in words, with the entries that start from it; published weights by their names.

    `origins` are the stage and the published weights of each entry, empty where it has none.
    """
    recipes: dict[str, str] = {}
    for name, stage in stages.items():
        recipe = stage.recipe.model_dump(exclude_unset=True)
        parts = [stage.data.name, f"seed {stage.seed}"]
        parts += [f"{key.replace('_', ' ')} {value}" for key, value in recipe.items()]
        if stage.model:
            parts.append(f"of {stage.model}")
        if stage.start or stage.weights:
            parts.append(f"itself from {stage.start or stage.weights}")
        recipes[name] = ", ".join(parts)
    starting: dict[str, list[str]] = {}
    for label, (start, weights) in origins.items():
        if start or weights:
            starting.setdefault(start or weights, []).append(label)
    images = {
        weights: f"images with {preprocessing.as_text(wanted)}"
        for _, weights in origins.values()
        if weights and (wanted := preprocessing.known(weights)) is not None
    }
    return {
        name: "; ".join(
            filter(
                None,
                [recipes.get(name, ""), images.get(name, ""), f"start of {', '.join(labels)}"],
            )
        )
        for name, labels in starting.items()
    } | {name: text for name, text in recipes.items() if name not in starting}
