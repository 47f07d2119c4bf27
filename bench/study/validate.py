"""Soundness: a study held against the catalogues of models and data, before anything starts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lightning_bench.bench.errors import UserError, nearest
from lightning_bench.bench.spec import ModelSpec, Recipe, Scalar
from lightning_bench.bench.study import compatibility, stages, validate_search
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.bench.study.messages import explain
from lightning_bench.bench.study.page import Where
from lightning_bench.data.catalogue.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import catalogue as model_catalogue

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Entry, Study


def check(study: "Study", where: Where) -> "Study":
    """Hold the study against the catalogues, and drop arguments that only repeat a default."""
    datasets = []
    for i, spec in enumerate(study.data):
        try:
            datasets.append(dataset_of(spec))
        except DataError as error:
            raise UserError(f"{where(('data', i))}: {error}") from None
    if len(study.datasets()) < len(study.data):
        raise UserError(f"{where(('data',))}: a data set is given twice")
    entries, reads = {}, {}
    for label, entry in study.entries.items():
        inside = _below(where, "entries", label)
        try:
            recipe = study.recipe_of(label)
        except ValidationError as error:
            raise UserError(explain(error, Recipe, _below(inside, "recipe"))) from None
        met = _met(study, label, inside) if entry.data else datasets
        read, args = _check_model(entry, study.args, met, inside, where)
        reads[label] = read
        for dataset in read:
            useless = compatibility.without_effect(dataset, recipe)
            if useless:
                name = useless[0]
                place = inside if name in entry.recipe else where
                raise UserError(
                    f"{place(('recipe', name))}: nothing is done with {name} on {dataset.name}"
                )
        if not recipe.epochs and not entry.start and not entry.weights:
            place = inside if "epochs" in entry.recipe else where
            raise UserError(
                f"{place(('recipe', 'epochs'))}: 0 epochs train nothing: "
                f"{label} needs `start` or `weights`"
            )
        entries[label] = entry.model_copy(update={"args": args})
        model = ModelSpec(name=entry.model, args=args)
        stages.check(study.stages, model, (entry.start, entry.weights), read, inside, where)
    for i, dataset in enumerate(datasets):
        if not any(dataset.name == met.name for read in reads.values() for met in read):
            raise UserError(f"{where(('data', i))}: no entry reads {dataset.kind}s")
    for i, name in enumerate(study.measure.data if study.measure else []):
        names = [dataset.name for dataset in datasets]
        if name not in names:
            hint = nearest(name, names)
            raise UserError(f"{where(('measure', 'data', i))}: {name} is not in the study{hint}")
    for metric in study.epochs_to:
        known = {name for dataset in datasets for name in dataset.metrics}
        if metric not in known:
            hint = nearest(metric, known)
            raise UserError(f"{where(('epochs_to', metric))}: no data set has {metric!r}{hint}")
    if problem := compatibility.unknown_probe(study.probes):
        raise UserError(f"{where(('probes',))}: {problem}")
    stages.check_used(study.stages, [entry.start for entry in entries.values()], where)
    study = study.model_copy(update={"entries": entries})
    validate_search.check(study, reads, where)
    return study


def _met(study: "Study", label: str, inside: Where) -> list[DataSet]:
    """The data sets that an entry names: each is one of the study's."""
    names = [spec.name for spec in study.data]
    found = []
    for i, spec in enumerate(study.entries[label].data):
        if names.count(spec.name) != 1:
            which = "twice" if spec.name in names else "not"
            known = "" if spec.name in names else nearest(spec.name, names)
            raise UserError(f"{inside(('data', i))}: {spec.name} is {which} in the study{known}")
        try:
            found.append(dataset_of(spec))
        except DataError as error:
            raise UserError(f"{inside(('data', i))}: {error}") from None
    return found


def _below(where: Where, *prefix: str) -> Where:
    """The same places, told from inside a part of the page."""
    return lambda at: where((*prefix, *at))


def _check_model(
    entry: "Entry",
    shared: Mapping[str, Scalar],
    datasets: list[DataSet],
    inside: Where,
    where: Where,
) -> tuple[list[DataSet], dict[str, Scalar]]:
    """The data sets that an entry's model reads, and its arguments without those at default."""
    try:
        variant = model_catalogue.find(entry.model)
    except ModelError as error:
        raise UserError(f"{inside(('model',))}: {error}") from None
    read = [dataset for dataset in datasets if dataset.kind == variant.kind]
    if not read:
        raise UserError(
            f"{inside(('model',))}: {entry.model} reads {variant.kind}s, "
            f"but {datasets[0].name} is a data set of {datasets[0].kind}s"
        )
    args: dict[str, Scalar] = {}
    for name, value in (*shared.items(), *entry.args.items()):
        place = (inside if name in entry.args else where)(("args", name))
        if name in read[0].facts():
            raise UserError(f"{place}: {name!r} comes from the data set")
        args.pop(name, None)  # an entry's own at its default outweighs a shared one
        try:
            args |= model_catalogue.check_arguments(variant, {name: value})
        except ModelError as error:
            raise UserError(f"{place}: {error}") from None
    return read, args
