"""Checks of `bench run` before anything starts: do the recipes fit, are data and weights there?"""

from pathlib import Path
from typing import TYPE_CHECKING

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import devices
from lightning_bench.bench.execute.job import Device, DeviceType, Execution

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.study.cluster import Cluster


def device_of(device: Device, cluster: "Cluster", *, local: bool) -> DeviceType:
    """Where runs are to be carried out: what `auto` means here, or on the cluster."""
    if local:
        return devices.resolve(device)
    from lightning_bench.bench.execute import slurm

    return slurm.device_of(device, cluster)


def demand_fit(plan: "Plan", execution: Execution, *, local: bool) -> None:
    """Raise a UserError that names the first recipe which can't be trained on these devices."""
    from lightning_bench.bench.study.compatibility import unfit_devices

    if execution.compile and local:
        devices.demand_compiler(execution.device)
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
            device=execution.device,
            devices=execution.devices,
            strategy=execution.strategy,
        )
        # What a cluster's nodes have is known there alone.
        if not problem and local and execution.device == "cuda":
            problem = devices.unfit_cards(recipe.precision)
        if problem:
            raise UserError(f"{label}: {problem}")


def demand_inputs(plan: "Plan") -> None:
    """Raise a DataError that names the first data, vocabulary or weights that can't be had."""
    from lightning_bench.bench.study import inputs
    from lightning_bench.data.sources import repository

    for dataset, patterns in inputs.files(plan.study):
        assert dataset.repository
        repository.demand(dataset.repository, patterns, revision=dataset.revision)
    for name in sorted({dataset.tokenizer for dataset in inputs.datasets(plan.study).values()}):
        if name:
            from lightning_bench.data import tokenisers

            tokenisers.demand(name)
    for name in inputs.weights(plan.study):
        if not Path(name).exists():
            repository.demand(name, repository.WEIGHTS, kind="model")
