"""Where the numbers come from: recipe, seeds, data, code, hardware and software."""

from collections import Counter
from collections.abc import Iterable, Sequence

from lightning_bench.bench.store.record import Environment, Record
from lightning_bench.bench.study.study import Study
from lightning_bench.common.messages import ranges
from lightning_bench.reports.report import Fact
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.text import tuning_lines
from lightning_bench.reports.text.numbers import joined

# Packages whose versions can move a number; the store's environment has them all.
PACKAGES = (
    "torch",
    "torchvision",
    "pytorch-lightning",
    "torchmetrics",
    "timm",
    "transformers",
    "datasets",
    "tokenizers",
    "numpy",
    "scikit-learn",
)


def facts(request: Request, runs: Sequence[ReportedRun]) -> list[Fact]:
    """The lines under the tables, one subject each."""
    records = [run.record for run in runs if run.state == "done" and run.record]
    lines = [
        ("Command", request.study.command),
        ("Runs", _runs(runs)),
        ("Seeds", _seeds(request, runs)),
        ("Recipe", _recipe(request)),
        *request.facts.items(),
        *((fact.label, fact.text) for fact in tuning_lines.facts(request)),
        ("Not equal", " ".join(request.unequal) or "Nothing declared."),
        *((f"Data, {dataset}", _data(dataset, runs)) for dataset in request.metrics),
        ("Code", _code(records)),
        *_environments(request, records),
    ]
    return [Fact(label=label[:1].upper() + label[1:], text=text) for label, text in lines if text]


def departures(study: Study) -> list[str]:
    """Entries whose recipe or data are not the study's, those with the same departure together."""
    recipes: dict[str, list[str]] = {}
    data: dict[str, list[str]] = {}
    modules = [label for label, each in study.resolved.items() if each.variant.form == "lightning"]
    for label, entry in study.entries.items():
        if label not in modules and study.resolved[label].recipe != study.recipe:
            settings = ", ".join(f"{key} {value}" for key, value in entry.recipe.items())
            recipes.setdefault(settings, []).append(label)
        for spec in entry.data:
            if spec not in study.data:
                own = spec.model_dump(exclude_defaults=True, exclude={"name"})
                settings = ", ".join(f"{key.replace('_', ' ')} {own[key]}" for key in own)
                what = f"{spec.name} with {settings or 'its own settings'}"
                data.setdefault(what, []).append(label)
    stand_ins = [
        f"{label} stands for {entry.stands_for}, which is not trained at this scale."
        for label, entry in study.entries.items()
        if entry.stands_for
    ]
    verb = "trains by its own module's" if len(modules) == 1 else "train by their own modules'"
    themselves = [f"{joined(modules)} {verb} steps, optimisers and schedules."] if modules else []
    departed = [
        f"{joined(labels)} {'was' if len(labels) == 1 else 'were'} {done} {what}."
        for done, entries in (("trained with", recipes), ("given", data))
        for what, labels in entries.items()
    ]
    return stand_ins + themselves + departed


def _runs(runs: Sequence[ReportedRun]) -> str:
    counts = Counter(run.state for run in runs)
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "none"


def _seeds(request: Request, runs: Sequence[ReportedRun]) -> str:
    by_entry: dict[str, set[int]] = {}
    for run in runs:
        if run.varied:
            continue
        by_entry.setdefault(run.entry, set()).add(run.seed)
    different = {ranges(sorted(seeds)) for seeds in by_entry.values()}
    if len(different) > 1:
        listed = [f"{entry} {ranges(sorted(seeds))}" for entry, seeds in by_entry.items()]
        return f"Unequal: {'; '.join(listed)}. Comparisons use the seeds that both sides have."
    if not different:
        return ranges(request.study.seeds)
    return f"{different.pop()}, the same for every entry; comparisons are paired by seed."


def _recipe(request: Request) -> str:
    settings = request.study.recipe.model_dump(mode="json")
    return ", ".join(
        f"{name.replace('_', ' ')} {value:g}"
        if isinstance(value, float)
        else f"{name.replace('_', ' ')} {value}"
        for name, value in settings.items()
        if value is not None
    )


def _data(dataset: str, runs: Sequence[ReportedRun]) -> str:
    records = [
        run.record for run in runs if run.dataset == dataset and run.state == "done" and run.record
    ]
    seen = {
        (data.train, data.val, data.test, data.fingerprint, data.revision)
        for record in records
        if (data := record.data)
    }
    descriptions = [
        f"{train:,} training, {val:,} validation and {test:,} test examples,"
        f" fingerprint {mark[:12]}" + (f", commit {revision[:12]}" if revision else "")
        for train, val, test, mark, revision in sorted(seen)
    ]
    images = sorted({r.data.preprocessing for r in records if r.data and r.data.preprocessing})
    treated = f"; images with {', or '.join(images)}" if images else ""
    if any(record.spec.data.split == "seed" for record in records):
        return (
            "Split anew by each seed, so that entries are compared over seeds alone and not example"
            f" by example: {'; '.join(descriptions)}{treated}"
        )
    if any(r.spec.data.shots or r.spec.data.split != "fixed" for r in records):
        return "Drawn anew for each seed: " + "; ".join(descriptions) + treated
    warning = "Not the same data in every run: " if len(descriptions) > 1 else ""
    return warning + "; ".join(descriptions) + treated


def _code(records: Iterable[Record]) -> str:
    seen = {
        (
            p.bench_version,
            (p.git_revision or "unknown")[:12],
            "" if p.git_dirty is False else " with uncommitted changes" if p.git_dirty else "",
        )
        for p in (record.provenance for record in records)
    }
    return "; ".join(
        f"bench {version}, revision {revision}{dirty}" for version, revision, dirty in sorted(seen)
    )


def _environments(request: Request, records: Sequence[Record]) -> list[tuple[str, str]]:
    """Hardware and software; numbered where runs came from several."""
    used = Counter(
        (p.environment or "", p.device_kind or p.device, p.devices, p.threads)
        for p in (record.provenance for record in records)
    )
    hosts: dict[str, set[str]] = {}
    for p in (record.provenance for record in records):
        hosts.setdefault(p.environment or "", set()).update(p.hosts or [p.host])
    digests = sorted({digest for digest, *_ in used})
    lines = []
    for number, digest in enumerate(digests, start=1):
        mine = [place for place in used if place[0] == digest]
        count = sum(used[place] for place in mine)
        which = f" {number} ({count} runs)" if len(digests) > 1 else ""
        where = joined(
            [
                f"{devices} × {device}, {threads} thread{'s' * (threads != 1)}"
                for device, devices, threads in sorted({place[1:] for place in mine})
            ]
        )
        environment = request.environments.get(digest)
        if environment is None:
            lines.append((f"Hardware{which}", f"{where}; environment {digest[:12]} is not known"))
            continue
        count = len(hosts[digest])
        lines.append(
            (
                f"Hardware{which}",
                f"{_machine(environment)}; {count} host{'s' * (count != 1)}; a run used {where}",
            )
        )
        lines.append((f"Software{which}", _software(environment)))
    return lines


def _machine(environment: Environment) -> str:
    parts = [
        f"{environment.cpu}, {environment.cores} cores",
        f"{environment.memory_bytes / 1e9:.0f} GB",
        *(f"{count} × {gpu}" for gpu, count in sorted(Counter(environment.gpus).items())),
    ]
    return ", ".join(parts)


def _software(environment: Environment) -> str:
    versions = [
        f"{name} {environment.packages[name]}" for name in PACKAGES if name in environment.packages
    ]
    for_gpus = [f"driver {environment.driver}"] if environment.driver else []
    for_gpus += [f"{name} {version}" for name, version in environment.libraries.items()]
    return ", ".join([f"Python {environment.python}", environment.platform, *versions, *for_gpus])
