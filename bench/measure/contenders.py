"""A study's models as contenders of a measurement, and the session that measured them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.store import session_files
from lightning_bench.bench.store.measurements import Contender, Session, Setting
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.bench.study.measure_settings import Measure
from lightning_bench.models.registry import catalogue as model_catalogue

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Run


def contenders(
    runs: Sequence["Run"], measure: Measure | None = None
) -> dict[tuple[str, str], Contender]:
    """The contender of each entry on each data set; those of one model and input are one."""
    names = measure.data if measure else []
    by_label: dict[
        tuple[str, str], tuple[str, str, dict[str, bool | int | float | str | None]]
    ] = {}
    for run in runs:
        if (run.entry, run.dataset) in by_label or (names and run.spec.data.name not in names):
            continue
        entry = model_catalogue.find(run.spec.model.name)
        facts = dataset_of(run.spec.data).facts()
        all_arguments = {**facts, **run.spec.model.args}
        # A network of the user's own takes facts that are no arguments of it.
        arguments = all_arguments
        if entry.form == "variant":
            arguments = model_catalogue.check_arguments(entry, all_arguments)
        by_label[run.entry, run.dataset] = entry.name, entry.family, arguments
    return {
        (entry, dataset): Contender(
            label=_label(entry, dataset, by_label), model=name, args=arguments, family=family
        )
        for (entry, dataset), (name, family, arguments) in by_label.items()
    }


def asked(runs: Sequence["Run"], measure: Measure, device: str) -> list[tuple[Contender, Setting]]:
    """Every different contender in every setting."""
    different = list({c.label: c for c in contenders(runs, measure).values()}.values())
    shared = measure.model_dump(exclude={"mode", "quick", "data"})
    settings = [
        Setting.model_validate({"mode": mode, "device": device, **shared}) for mode in measure.mode
    ]
    return [(contender, setting) for setting in settings for contender in different]


def find(
    store: Store, runs: Sequence["Run"], measure: Measure, devices: Sequence[str] = ("cuda", "cpu")
) -> Session | None:
    """The newest session of just these models, settings and sources, on whichever device."""
    current = sources_of(contenders(runs, measure).values())
    keys = [
        session_files.key_of(asked(runs, measure, device), current, quick=measure.quick)
        for device in devices
    ]
    return next(filter(None, (session_files.newest(store, key) for key in keys)), None)


def sources_of(models: Iterable[Contender]) -> dict[str, str]:
    """The digests of all source files behind these models."""
    together: dict[str, str] = {}
    for name in {contender.model for contender in models}:
        together |= source_digests.of_model(name)
    return dict(sorted(together.items()))


def _label(entry: str, dataset: str, by_label: Mapping[tuple[str, str], object]) -> str:
    """The entry's name; with the first data set of that input, where inputs differ."""
    inputs = {name: what for (label, name), what in by_label.items() if label == entry}
    if all(what == inputs[dataset] for what in inputs.values()):
        return entry
    return f"{entry}, {next(name for name, what in inputs.items() if what == inputs[dataset])}"
