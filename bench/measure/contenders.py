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
    found: dict[tuple[str, str], tuple[str, str, dict[str, bool | int | float | str | None]]] = {}
    for run in runs:
        if (run.entry, run.dataset) in found or (names and run.spec.data.name not in names):
            continue
        entry = model_catalogue.find(run.spec.model.name)
        facts = dataset_of(run.spec.data).facts()
        given = {**run.spec.model.args, **facts}
        arguments = model_catalogue.check_arguments(entry, given)
        found[run.entry, run.dataset] = entry.name, entry.family, arguments
    return {
        (entry, dataset): Contender(
            label=_label(entry, dataset, found), model=name, args=arguments, family=family
        )
        for (entry, dataset), (name, family, arguments) in found.items()
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


def sources_of(found: Iterable[Contender]) -> dict[str, str]:
    """The digests of all source files behind these models."""
    together: dict[str, str] = {}
    for name in {contender.model for contender in found}:
        together |= source_digests.of_model(name)
    return dict(sorted(together.items()))


def _label(entry: str, dataset: str, found: Mapping[tuple[str, str], object]) -> str:
    """The entry's name; with the first data set of that input, where inputs differ."""
    mine = {name: what for (label, name), what in found.items() if label == entry}
    if all(what == mine[dataset] for what in mine.values()):
        return entry
    return f"{entry}, {next(name for name, what in mine.items() if what == mine[dataset])}"
