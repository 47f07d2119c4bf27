"""Checks of `bench run` before anything starts: do the recipes fit, are data and weights there?"""

from pathlib import Path
from typing import TYPE_CHECKING

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.devices import demand_compiler, gpus
from lightning_bench.bench.execute.job import Execution

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan


def demand_fit(plan: "Plan", execution: Execution, *, local: bool) -> None:
    """Raise a UserError that names the first recipe which can't be trained on these devices."""
    from lightning_bench.bench.study.compatibility import unfit_devices

    device: str = execution.device
    if device == "auto":
        # What a cluster's nodes have is known there alone.
        device = "cuda" if not local or gpus() else "cpu"
    if execution.compile and local and device == "cpu":
        demand_compiler()
    study = plan.study
    recipes = [(label, entry.recipe) for label, entry in study.resolved.items()]
    recipes += [(planned.run.entry, planned.run.spec.recipe) for planned in plan.runs]  # stages too
    searched = ("batch_size", "accumulate", "precision")
    recipes += [
        (cell.entry, recipe) for cell in study.cells() for recipe in cell.extremes(*searched)
    ]
    for label, recipe in recipes:
        problem = unfit_devices(
            recipe,
            device=device,
            devices=execution.devices,
            strategy=execution.strategy,
        )
        if problem:
            raise UserError(f"{label}: {problem}")


def demand_inputs(plan: "Plan") -> None:
    """Raise a UserError that names the first data set or weights that are nowhere to be had."""
    from lightning_bench.bench.study import inputs
    from lightning_bench.data.errors import DataError
    from lightning_bench.data.sources import repository

    try:
        for dataset, patterns in inputs.files(plan.study):
            assert dataset.repository
            repository.demand(dataset.repository, patterns, revision=dataset.revision)
        for name in inputs.weights(plan.study):
            if not Path(name).exists():
                repository.demand(name, repository.WEIGHTS, kind="model")
    except DataError as error:
        raise UserError(str(error)) from None
