"""What the axes of a page's figures need of its entries beyond their records: counts of models."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study

#: Facts that are counted, from the models of entries or of the stages before them.
_OF_MODELS = {"flops": "flops", "tokens": "tokens"}
_OF_STAGES = "pretraining_flops"


def of_figures(study: "Study") -> dict[str, dict[str, float]]:
    """The counted facts that a figure has on an axis, by entry; what can't be counted is left out.

    Models are counted in a process that has torch, once for each.
    """
    asked = {name for figure in study.figures for name in figure.axes}
    found: dict[str, dict[str, float]] = {}
    if study.seeds and asked & _OF_MODELS.keys():
        found |= _of_models(study, sorted(asked & _OF_MODELS.keys()))
    if _OF_STAGES in asked:
        found[_OF_STAGES] = _of_stages(study)
    return found


def _of_models(study: "Study", names: list[str]) -> dict[str, dict[str, float]]:
    from lightning_bench.models.registry import catalogue

    read = study.first_read()
    entries = study.resolved
    wanted = [
        (entries[label].model.name, {**entries[label].model.args, **dataset.facts()})
        for label, dataset in read.items()
    ]
    counted = dict(zip(read, catalogue.counts(wanted), strict=True))
    return {
        name: {label: counts[name] for label, counts in counted.items() if counts.get(name)}
        for name in names
    }


def _of_stages(study: "Study") -> dict[str, float]:
    """FLOPs of all stages that an entry starts from, training and validation."""
    from lightning_bench.bench.plan import estimate
    from lightning_bench.bench.study.inputs import dataset_of
    from lightning_bench.models.registry import catalogue

    specs = {run.spec.key: run.spec for e in study.resolved.values() for run in e.lineage}
    wanted = [(spec.model.name, estimate.arguments(spec)) for spec in specs.values()]
    counted = zip(specs.items(), catalogue.counts(wanted), strict=True)
    flops = {
        key: work.flops
        for (key, spec), counts in counted
        if isinstance(
            work := estimate.workload(spec, dataset_of(spec.data), counts), estimate.Workload
        )
    }
    found = {}
    for label, entry in study.resolved.items():
        each = [flops.get(run.spec.key) for run in entry.lineage]
        if each and None not in each:
            found[label] = sum(filter(None, each))
    return found
