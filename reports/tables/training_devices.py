"""What a table says of the devices behind its numbers: their kinds, and what they don't repeat."""

from collections import Counter
from collections.abc import Iterable

from lightning_bench.bench.store.record import Provenance, Record
from lightning_bench.reports.report import Note
from lightning_bench.reports.statistics.samples import Sample, Samples
from lightning_bench.reports.text.numbers import joined


def kind(made: Provenance) -> str:
    """The kind of device that a run was trained on, as `NVIDIA A100-SXM4-80GB`, or `CPU`."""
    return _named(made.device_kind, made.device)


def kinds(records: Iterable[Record]) -> Counter[str]:
    """How many runs were trained on each kind of device."""
    made = [record.provenance for record in records]
    found: Counter[str] = Counter()
    for (device_kind, device), count in Counter((m.device_kind, m.device) for m in made).items():
        found[_named(device_kind, device)] += count
    return found


def _named(device_kind: str, device: str) -> str:
    return device_kind or ("CPU" if device == "cpu" else device)


def notes(collected: Samples) -> list[Note]:
    """The kind of GPU behind a table's runs, or a warning where there are several kinds."""
    found = kinds(record for sample in collected.values() for record in sample.done.values())
    if len(found) > 1:
        counts = [f"{name} ({count} run{'s' * (count > 1)})" for name, count in found.items()]
        text = f"Not one kind of device: {joined(counts)}; they round differently."
        return [Note(text=text)]
    return [Note(text=f"Trained on {name}.") for name in found if name != "CPU"]


def remarks(collected: Samples) -> dict[tuple[str, str], list[str]]:
    """What each sample's numbers need said: where it was trained, in a table that mixes devices;
    and what would not come out equal."""
    by_sample = {place: kinds(sample.done.values()) for place, sample in collected.items()}
    mixed = len(set().union(*by_sample.values())) > 1
    return {
        place: [
            *([f"trained on {joined(list(found))}"] if mixed and found else []),
            *_nondeterministic(collected[place]),
        ]
        for place, found in by_sample.items()
    }


def _nondeterministic(sample: Sample) -> list[str]:
    found = {name for record in sample.done.values() for name in record.nondeterministic}
    if not found:
        return []
    what = "an operation has" if len(found) == 1 else f"{len(found)} operations have"
    return [
        f"not deterministic: {what} no deterministic form on this device, so that a repetition"
        f" differs a little ({', '.join(sorted(found))})"
    ]
