"""Loading the data, the model and the task that a spec names."""

import importlib
from collections.abc import Callable
from dataclasses import replace

import torch

from lightning_bench.bench.run import initial_weights
from lightning_bench.bench.run.distributed import ALONE, Rank
from lightning_bench.bench.run.initial_weights import WeightsFile
from lightning_bench.bench.spec import Recipe, RunSpec
from lightning_bench.bench.store.record import Start
from lightning_bench.bench.study import compatibility
from lightning_bench.bench.study.inputs import changes, dataset_of, task_module
from lightning_bench.common import heartbeat
from lightning_bench.data import progress
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules import contract
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.sources import repository
from lightning_bench.models.registry import registry, user_code
from lightning_bench.models.tasks import TASKS, loss_names, own_callable
from lightning_bench.models.tasks.losses import Loss, balanced
from lightning_bench.models.tasks.optimisation import Optimisation
from lightning_bench.models.tasks.task import Task
from lightning_bench.models.weights import preprocessing
from lightning_bench.models.weights.heads import add_pair_head

own_callable.import_with(user_code.import_module)


class DataProblem(Exception):
    """The data could not be loaded or is not what the catalogue promises."""


def load(spec: RunSpec, rank: Rank = ALONE) -> DataModule:
    """Load the data of a run with the module that its kind of data set has."""
    try:
        entry = as_weights_want(dataset_of(spec.data), spec)
        if useless := compatibility.without_effect(entry, spec.recipe):
            raise DataError(f"{entry.name}: nothing here is done with {', '.join(useless)}")
        data = contract.make(
            entry,
            recipe=spec.recipe.model_dump(),
            batch_size=spec.recipe.batch_size,
            seed=spec.seed,
            source_seeds=dict(spec.source_seeds),
            rank=rank.index,
            world_size=rank.world,
            cores=rank.usable_cores,
            sample=spec.data.sample,
        )
        # A trial is not to know the test split, nor can it ask for it.
        with progress.reporting_to(heartbeat.beat):
            data.setup("test" if not spec.recipe.epochs else None if spec.tested else "fit")
    except Exception as error:
        raise DataProblem(str(error)) from error
    return data


def as_weights_want(entry: DataSet, spec: RunSpec) -> DataSet:
    """The data set with the preprocessing that the configuration beside weights states.

    That which timm's own weights want is in the spec already. Published weights, of this run or of
    a stage before it, bring theirs by their file.
    """
    first: RunSpec | None = spec
    while first is not None and not first.weights:
        first = first.start
    if first is None or entry.kind != "image" or preprocessing.known(first.weights):
        return entry
    try:
        wanted = initial_weights.preprocessing_of(first.weights)
    except DataError:  # told when they are to be loaded; a rehearsal makes some up
        return entry
    if wanted is None:
        return entry
    return replace(entry, **changes(entry, wanted, trained=spec.recipe.epochs > 0))


def revision(entry: DataSet) -> str:
    """The commit of the hub's files that were loaded; empty where they are not of the hub."""
    if entry.repository is None:
        return ""
    return repository.commit(entry.repository, list(entry.files.values()), revision=entry.revision)


def load_model(
    spec: RunSpec, data: DataModule, find_weights: Callable[[RunSpec], WeightsFile | None]
) -> tuple[torch.nn.Module, Start | None, dict[str, str]]:
    """The model with its initial weights, what they were, and digests of its arguments' weights."""
    try:
        arguments, digests = initial_weights.model_arguments(spec)
        model = registry.create(spec.model.name, **{**data.facts(), **arguments})
        if data.entry.task == "pretrain":
            add_pair_head(model)
        weights = find_weights(spec)
        start = initial_weights.load(model, weights, spec) if weights else None
        return model, start, digests
    except DataError as error:
        raise DataProblem(str(error)) from error


def make_task(
    model: torch.nn.Module,
    entry: DataSet,
    recipe: Recipe,
    *,
    metrics: tuple[str, ...] = (),
    labels: Callable[[], torch.Tensor] | None = None,
) -> Task:
    """The LightningModule of a data set's task.

    `metrics` are those of the run, where it has its own; `labels` gives the training split's.
    """
    kind: type[Task] = getattr(importlib.import_module(task_module(entry)), TASKS[entry.task])
    task = kind(
        model,
        label_smoothing=recipe.label_smoothing,
        optimisation=optimisation(recipe),
        metrics=metrics or entry.metrics,
        tests=entry.tests,
        criterion=_criterion(recipe, entry, labels),
        outputs=entry.classes,
    )
    if recipe.freeze:
        task.freeze_body()
    if recipe.ema:
        task.average_weights(recipe.ema)
    # transformers hands out its models in evaluation, and Lightning leaves that as it is.
    task.train()
    return task


def _criterion(
    recipe: Recipe, entry: DataSet, labels: Callable[[], torch.Tensor] | None
) -> Loss | None:
    """The loss that a recipe names; None for the task's own."""
    if not recipe.loss and not recipe.class_weights:
        return None
    of_labels = entry.task == "multilabel"
    weights = None if isinstance(recipe.class_weights, str) else list(recipe.class_weights)
    if recipe.class_weights == "balanced":
        if labels is None:
            weights = [1.0] * entry.classes  # nothing is trained
        else:
            weights = balanced(labels(), entry.classes, labels=of_labels)
    loss = Loss(
        recipe.loss or loss_names.of_task(entry.task),
        arguments=recipe.loss_args,
        label_smoothing=recipe.label_smoothing,
        weights=weights,
    )
    return loss.of_labels() if of_labels else loss


def optimisation(recipe: Recipe) -> Optimisation:
    """The part of a recipe that the optimiser needs."""
    names = Optimisation.__dataclass_fields__
    named = {name: getattr(recipe, name) for name in names if not name.startswith("_")}
    return Optimisation(**{**named, "groups": [g.model_dump() for g in recipe.groups]})
