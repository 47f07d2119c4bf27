"""Losses of a page: whether each recipe's is for the task of the data that it trains on."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lightning_bench.bench.spec import Recipe
from lightning_bench.bench.study.page import Location
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.data.dataset import DataSet
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import user_code
from lightning_bench.models.tasks import loss_names
from lightning_bench.models.tasks.metric_names import parse

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study


def breaches(study: "Study") -> Iterator[PageError]:
    """What is wrong with the losses of entries and stages, and with callables of one's own."""
    for i, spelled in enumerate(study.callbacks):
        try:
            callback = parse(spelled)
            if not callback.own:
                raise ModelError(f"{spelled}: a callback is one of yours, as module:callable")
            user_code.locate(callback.name)
        except ModelError as error:
            yield PageError(("callbacks", i), str(error))
    for entry in study.resolved.values():
        for _, dataset in entry.data.values():
            for setting, message in _of_recipe(entry.recipe, dataset):
                own = setting in entry.page.recipe
                at: Location = ("entries", entry.label, "recipe", setting)
                yield PageError(at if own else ("recipe", setting), message)
        for run in entry.lineage:
            for setting, message in _of_recipe(run.stage.recipe, run.dataset):
                yield PageError(("stages", run.name, "recipe", setting), message)


def _of_recipe(recipe: Recipe, dataset: DataSet) -> Iterator[tuple[str, str]]:
    weights = recipe.class_weights
    if message := loss_names.unfit(recipe.loss, bool(weights), dataset.task):
        setting = "loss" if recipe.loss else "class_weights"
        yield setting, f"{dataset.name}: {message}"
    if not isinstance(weights, str) and len(weights) != dataset.classes:
        yield (
            "class_weights",
            f"{len(weights)} weights, but {dataset.name} has {dataset.classes} classes",
        )
    for setting in ("loss", "optimizer", "schedule"):
        if ":" in (name := getattr(recipe, setting)):
            try:
                user_code.locate(name)
            except ModelError as error:
                yield setting, str(error)
