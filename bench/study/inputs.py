"""The inputs of runs: data sets with their settings, tasks, files, and published weights."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from lightning_bench.bench.spec import WEIGHTS, DataSpec
from lightning_bench.data import catalogue as data_catalogue
from lightning_bench.data.catalogue.dataset import DataSet

if TYPE_CHECKING:
    from lightning_bench.bench.study.stages import Stage
    from lightning_bench.bench.study.study import Entry, Study


@cache
def dataset_of(spec: DataSpec) -> DataSet:
    """The catalogue's entry with the settings of a run."""
    return data_catalogue.find(
        spec.name,
        image_size=spec.image_size,
        length=spec.length,
        tokenizer=spec.tokenizer,
        shots=spec.shots,
        shifts=spec.shifts,
    )


def task_module(dataset: DataSet) -> str:
    """The module of the LightningModule that trains on a data set."""
    return f"lightning_bench.models.tasks.{dataset.task.replace('-', '_')}"


def datasets(study: "Study") -> list[DataSet]:
    """The data sets of its entries as they read them, and of its stages, each once."""
    return [dataset_of(spec) for spec in _specs(study)]


def files(study: "Study") -> list[tuple[DataSet, list[str]]]:
    """The files of each data set that lies in a repository; of one only scored on, the tests'.

    Of a sample those further tests that this machine has.
    """
    from lightning_bench.data.sources import readers  # imports pyarrow, which takes a while

    trained = {stage.data for stage in study.stages.values()}
    for label in study.entries:
        if study.recipe_of(label).epochs:
            trained |= {own for spec in study.data if (own := study.data_of(label, spec))}
    found = []
    for spec, whole in zip(_specs(study), datasets(study), strict=True):
        dataset = readers.present(whole) if spec.sample else whole
        wanted = dataset.files if spec in trained else dataset.tests
        patterns = [dataset.files[split] for split in wanted if split in dataset.files]
        if dataset.repository:
            found.append((dataset, patterns))
    return found


def weights(study: "Study") -> list[str]:
    """The repositories, folders and files of weights that models start from or hold, sorted."""
    return sorted(set(_weights(study)))


def _specs(study: "Study") -> list[DataSpec]:
    found: dict[DataSpec, None] = dict.fromkeys(study.data)
    for entry in study.entries.values():
        found |= dict.fromkeys(entry.data)
    return list(found | dict.fromkeys(stage.data for stage in study.stages.values()))


def _weights(study: "Study") -> Iterator[str]:
    parts: list[Entry | Stage] = [*study.entries.values(), *study.stages.values()]
    for part in parts:
        yield from (str(part.args[name]) for name in WEIGHTS & part.args.keys())
        if part.weights:
            yield part.weights
