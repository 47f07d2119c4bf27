"""Inputs of runs: data sets with their settings, files, and published weights."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_bench.bench.spec import WEIGHTS, DataSpec
from lightning_bench.bench.study.page import Location
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.bench.study.user_data_facts import facts_of
from lightning_bench.data import catalogue as data_catalogue
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import user_data
from lightning_bench.models.registry import user_code
from lightning_bench.models.weights import preprocessing
from lightning_bench.models.weights.preprocessing import Preprocessing

if TYPE_CHECKING:
    from lightning_bench.bench.study.stages import Stage
    from lightning_bench.bench.study.study import Entry, Study

user_data.connect(facts_of, user_code.import_module)


def dataset_of(spec: DataSpec) -> DataSet:
    """The catalogue's entry with the settings of a run."""
    # What a path means hangs on the page, and on where the command runs.
    return _dataset_of(spec, user_code.project_folders() if ":" in spec.name else ())


def forget_datasets() -> None:
    """Have every data set looked up anew, as where another takes its place."""
    _dataset_of.cache_clear()


@cache
def _dataset_of(spec: DataSpec, folders: tuple[Path, ...]) -> DataSet:
    del folders
    return data_catalogue.find(
        spec.name,
        image_size=spec.image_size,
        length=spec.length,
        tokenizer=spec.tokenizer,
        shots=spec.shots,
        shifts=spec.shifts,
        split=spec.split,
        mean=spec.mean,
        std=spec.std,
        interpolation=spec.interpolation,
        crop=spec.crop,
        columns=spec.columns,
        label=spec.label,
        task=spec.task,
        split_column=spec.split_column,
        config=spec.config,
        revision=spec.revision,
        title=spec.title,
        args=spec.args,
    )


def preprocessed(data: DataSpec, weights: str, *, trained: bool) -> DataSpec:
    """A data set as published weights want their images; as it is, if that is what they want.

    Who only scores them crops as they do; who trains them shows them all that the data set shows.
    """
    dataset = dataset_of(data)
    wanted = preprocessing.known(weights)
    if wanted is None or dataset.kind != "image":
        return data
    return data.model_copy(update=changes(dataset, wanted, trained=trained))


def changes(dataset: DataSet, wanted: Preprocessing, *, trained: bool) -> dict[str, Any]:
    """The facts of a data set that differ from what weights want."""
    settings = asdict(wanted) | ({"crop": None} if trained else {})
    found = {k: v for k, v in settings.items() if v is not None and v != getattr(dataset, k)}
    if {"mean", "std"} & found.keys():
        found |= {"mean": wanted.mean, "std": wanted.std}
    return found


def dataset_at(spec: DataSpec, at: Location) -> DataSet:
    """The same for a spec that stands at this place of a page; a PageError says what is wrong."""
    try:
        return dataset_of(spec)
    except DataError as error:
        raise PageError(at, str(error)) from None


def task_module(dataset: DataSet) -> str:
    """The module of the LightningModule that trains on a data set."""
    return f"lightning_bench.models.tasks.{dataset.task.replace('-', '_')}"


def datasets(study: "Study") -> dict[DataSpec, DataSet]:
    """The data sets of its entries as they read them, and of its stages, each once."""
    entries = study.resolved.values()
    return (
        dict(zip(study.data, study.datasets.values(), strict=True))
        | {spec: dataset for entry in entries for spec, dataset in entry.data.values()}
        | {run.spec.data: run.dataset for entry in entries for run in entry.lineage}
    )


def files(study: "Study") -> list[tuple[DataSet, list[str]]]:
    """The files of each data set that lies in a repository; of one only scored on, the tests'.

    Of a sample those further tests that this machine has.
    """
    # It imports pyarrow, which takes a while.
    from lightning_bench.data.sources.source_splits import without_missing_tests

    trained = {stage.data for stage in study.stages.values()}
    for entry in study.resolved.values():
        if entry.recipe.epochs:
            trained |= {spec for spec, _ in entry.data.values()}
    needed = []
    for spec, whole in datasets(study).items():
        dataset = without_missing_tests(whole) if spec.sample else whole
        splits = dataset.files if spec in trained else dataset.tests
        patterns = [dataset.files[split] for split in splits if split in dataset.files]
        if dataset.repository:
            needed.append((dataset, patterns))
    return needed


def weights(study: "Study") -> list[str]:
    """The repositories, folders and files of weights that models start from or hold, sorted."""
    return sorted(set(_weights(study)))


def _weights(study: "Study") -> Iterator[str]:
    parts: list[Entry | Stage] = [*study.entries.values(), *study.stages.values()]
    for part in parts:
        yield from (str(part.args[name]) for name in WEIGHTS & part.args.keys())
        if part.weights:
            yield part.weights
