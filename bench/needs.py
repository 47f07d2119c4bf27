"""Needs: the data and the published weights that a study reads, stages and all."""

from collections.abc import Iterator

from bench.sources import dataset_of
from bench.spec import WEIGHTS, DataSpec
from bench.stages import Stage
from bench.study import Entry, Study
from data.dataset import DataSet


def datasets(study: Study) -> list[DataSet]:
    """The data sets of its entries as they read them, and of its stages, each once."""
    specs: dict[DataSpec, None] = dict.fromkeys(study.data)
    for entry in study.entries.values():
        specs |= dict.fromkeys(entry.data)
    specs |= dict.fromkeys(stage.data for stage in study.stages.values())
    return [dataset_of(spec) for spec in specs]


def weights(study: Study) -> list[str]:
    """The repositories, folders and files of weights that models start from or hold, sorted."""
    return sorted(set(_weights(study)))


def _weights(study: Study) -> Iterator[str]:
    parts: list[Entry | Stage] = [*study.entries.values(), *study.stages.values()]
    for part in parts:
        yield from (str(part.args[name]) for name in WEIGHTS & part.args.keys())
        if part.weights:
            yield part.weights
