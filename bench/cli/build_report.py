"""From a plan to a report: what `bench run` and `bench report` have in common."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import nearest
from lightning_bench.models.probes import PROBES
from lightning_bench.reports import inputs_digest
from lightning_bench.reports.render.write import FORMATS, Format, kinds_of_figures, paths, write
from lightning_bench.reports.report import (
    PERCENT,
    Attempt,
    Counts,
    Entry,
    OnExamples,
    Published,
    Report,
    Request,
    Run,
    State,
)

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan, PlannedRun
    from lightning_bench.bench.store import store as stores
    from lightning_bench.bench.store.record import Examples
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.study import Entry as StudyEntry
    from lightning_bench.bench.study.study import Study
    from lightning_bench.data.catalogue.dataset import DataSet
    from lightning_bench.reports.figures.drawing_process import Studio
    from lightning_bench.reports.figures.figure_data import Sketch

#: A report compares trained models on the test examples up to these; it takes about a second.
MOST_PAIRS, MOST_EXAMPLES = 300, 2_000_000
# A variant's name without its size, as gmlp-text of gmlp-text-18, and vit of vit-b16.
_FAMILY = re.compile(r"-(?=[a-z]{0,2}\d|(?:tiny|mini|small|base|large)$)")
_DEPTH = re.compile(r"(\d+) (?:blocks|layers)$|^ResNet-(\d+)$")


def folder(study: "Study", store: "Store", settings: Iterable[str]) -> Path:
    """Where the study's report goes; a changed study gets a folder of its own."""
    name = f"{study.name}-{study.scale}"
    changes = sorted(settings)
    if changes:
        name += "+" + hashlib.sha256("\n".join(changes).encode()).hexdigest()[:8]
    return store.root / "reports" / name


def make(
    plan: "Plan",
    store: "Store",
    target: Path,
    formats: Iterable[Format] = FORMATS,
    *,
    afresh: bool = False,
    against: str | None = None,
    show: Callable[[Report], None] = lambda report: None,
    studio: "Studio | None" = None,
) -> Report:
    """The report of a plan's records: read where it is current and not wanted afresh, else made.

    It is shown as soon as it is there, before its files are.
    """
    request, runs = _request(plan, store, against), _runs(plan, store)
    wanted: list[Format] = sorted({*formats, "json"})
    if not afresh:
        found = _current(target / "report.json", inputs_digest.inputs(request, runs))
        if found and all((target / path).exists() for path in paths(found, wanted)):
            show(found)
            return found
    from lightning_bench.reports.build import build

    kinds = kinds_of_figures(wanted)
    drawn: Iterator[tuple[str, bytes]] = iter(())

    def draw(found: "Sketch") -> None:
        from lightning_bench.reports.figures import drawing_process

        nonlocal drawn
        drawn = drawing_process.files(found, runs, kinds, studio)

    report = build(request, runs, _predictions(plan), draw if kinds else None)
    write(report, runs, target, wanted, show, drawn)
    _write_chosen(plan, target)
    return report


def chosen_pages(plan: "Plan", target: Path) -> dict[Path, str]:
    """Pages of what the study's searches chose, by where they go beside its report."""
    from lightning_bench.bench.search import chosen_page
    from lightning_bench.reports.text.numbers import slug

    found = chosen_page.pages(plan.study, plan.searches)
    several = len(plan.study.data) > 1
    names = {name: f"-{slug(name)}" if several else "" for name in found}
    return {
        target / f"{plan.study.name}-chosen{names[name]}.yaml": text for name, text in found.items()
    }


def _write_chosen(plan: "Plan", target: Path) -> None:
    from lightning_bench.common.files import write_atomically

    for path, text in chosen_pages(plan, target).items():
        write_atomically(path, text.encode())


def on_examples(plan: "Plan", store: "Store", a: str, b: str) -> list[OnExamples]:
    """Two entries on the same test examples, however large the study is."""
    from lightning_bench.reports.statistics import per_example, samples

    request, runs = _request(plan, store), _runs(plan, store)
    entries = [entry for entry in request.entries if entry.label in (a, b)]
    request = request.model_copy(update={"entries": entries})
    mine = [run for run in runs if run.entry in (a, b)]
    return per_example.compare(request, samples.collect(request, mine), _read(plan, {a, b}))


def _predictions(plan: "Plan") -> dict[str, Any] | None:
    """Per-example results by key; None where it is long work, which `bench compare` does a pair."""
    pairs = comb(len(plan.study.entries), 2) * len(plan.study.data)
    records = (planned.attempt.record for planned in plan.runs if planned.attempt)
    scored = sum(record.scored for record in records if record)
    return _read(plan) if pairs <= MOST_PAIRS and scored <= MOST_EXAMPLES else None


def _read(plan: "Plan", entries: Collection[str] | None = None) -> dict[str, Any]:
    """The predictions of finished runs, of some entries or all; a damaged file is left out."""
    from lightning_bench.bench.store import predictions
    from lightning_bench.bench.store.store import Damaged

    found = {}
    for planned in plan.runs:
        record = planned.attempt.record if planned.attempt else None
        wanted = planned.state == "done" and (entries is None or planned.run.entry in entries)
        if wanted and planned.attempt and record and record.predictions:
            with suppress(Damaged):
                found[planned.key] = predictions.read(planned.attempt.folder, record.predictions)
    return found


def _current(path: Path, inputs: str) -> Report | None:
    """The report at a path, if it was built from just these inputs."""
    try:
        report = Report.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
    return report if report.inputs == inputs else None


def _request(plan: "Plan", store: "Store", against: str | None = None) -> Request:
    from lightning_bench.data import catalogue as data_catalogue

    study = plan.study
    datasets = study.datasets
    digests = {
        planned.attempt.record.provenance.environment
        for planned in plan.runs
        if planned.attempt and planned.attempt.record
    }
    environments = {d: store.read_environment(d) for d in sorted(filter(None, digests))}
    return Request(
        study=study.name,
        scale=study.scale,
        title=study.title,
        question=study.question,
        command=study.command,
        entries=[
            Entry(
                label=label,
                group=entry.group,
                model=entry.model,
                args=entry.args,
                published=entry.published or None,
                family=_FAMILY.split(entry.model)[0],
                depth=_depth(entry),
            )
            for label, entry in study.entries.items()
        ],
        metrics={
            name: [*dataset.reported, *_measured(plan, name)] for name, dataset in datasets.items()
        },
        counted=_counted(study) if not study.seeds else {},
        epochs_to=study.epochs_to,
        neutral=[metric for probe in PROBES.values() for metric in probe.metrics],
        higher_is_better=dict(data_catalogue.HIGHER_IS_BETTER),
        percent=[*PERCENT, *_shifted(datasets.values())],
        averages=study.averages,
        published=published(study, against),
        seeds=study.seeds,
        recipe=study.recipe,
        facts={
            "data": "; ".join(
                f"{dataset.title} ({dataset.source}; {dataset.policy}; {dataset.licence})"
                for dataset in datasets.values()
            ),
            **{f"start, {name}": text for name, text in study.origins().items()},
        },
        unequal=_unequal(study),
        environments={d: found for d, found in environments.items() if found},
        searches=plan.searches,
        **_speeds(plan, store),
        sheets=_sheets(plan, store),
    )


def _depth(entry: "StudyEntry") -> int | None:
    """Blocks or layers: an argument, its default, or told by the model's title."""
    from lightning_bench.models.registry import catalogue as model_catalogue

    variant = model_catalogue.find(entry.model)
    for name in ("depth", "layers"):
        argument = variant.arguments.get(name)
        value = entry.args.get(name, argument.default if argument else None)
        if isinstance(value, int):
            return value
    told = _DEPTH.search(variant.title)
    return int(told[1] or told[2]) if told else None


def _speeds(plan: "Plan", store: "Store") -> dict[str, Any]:
    """The session that measured the study's models, and who is who in it."""
    from lightning_bench.bench.measure import contenders

    runs, wanted = [planned.run for planned in plan.runs], plan.study.measure
    session = contenders.find(store, runs, wanted) if wanted and runs else None
    if session is None:
        return {}
    labels: dict[str, dict[str, str]] = {}
    for (entry, dataset), contender in contenders.contenders(runs, wanted).items():
        labels.setdefault(dataset, {})[entry] = contender.label
    return {"measured": session, "contenders": labels}


def _sheets(plan: "Plan", store: "Store") -> "dict[str, Examples]":
    """What each data set looks like, by the newest data that a run was made with."""
    fingerprints = {
        planned.run.dataset: record.data.fingerprint
        for planned in plan.runs
        if planned.attempt and (record := planned.attempt.record) and record.data
    }
    found = {name: store.read_examples(mark) for name, mark in fingerprints.items()}
    return {name: examples for name, examples in found.items() if examples}


def _counted(study: "Study") -> dict[str, Counts]:
    """What the models of a study that trains nothing count, on the first data set they read."""
    from lightning_bench.models.registry import catalogue as model_catalogue

    read = study.first_read()
    wanted = [
        (study.entries[label].model, {**study.entries[label].args, **dataset.facts()})
        for label, dataset in read.items()
    ]
    found = {}
    for label, counts in zip(read, model_catalogue.counts(wanted), strict=True):
        if "error" in counts:
            raise UserError(f"{study.name}: {label} can't be made: {counts['error']}")
        found[label] = Counts.model_validate(counts)
    return found


def _measured(plan: "Plan", dataset: str) -> list[str]:
    """What the study's probes found of any model on a data set."""
    if not plan.study.probes:
        return []
    found: set[str] = set()
    for planned in plan.runs:
        if planned.run.dataset == dataset and planned.attempt and planned.attempt.record:
            found |= planned.attempt.record.metrics.keys()
    names = [metric for probe in plan.study.probes for metric in PROBES[probe].metrics]
    return [name for name in names if name in found]


def _shifted(datasets: "Iterable[DataSet]") -> list[str]:
    """Metrics of shifted tests that are shares, as those of the plain test."""
    found = {name for dataset in datasets for name in dataset.reported}
    return sorted(name for name in found if name.partition("_shift")[0] in {*PERCENT} - {name})


def _unequal(study: "Study") -> list[str]:
    """Entries whose recipe departs from the study's, those with the same departure together."""
    from lightning_bench.reports.text.numbers import joined

    departed: dict[str, list[str]] = {}
    for label, entry in study.entries.items():
        if study.resolved[label].recipe != study.recipe:
            what = ", ".join(f"{key} {value}" for key, value in entry.recipe.items())
            departed.setdefault(what, []).append(label)
    read: dict[str, list[str]] = {}
    for label, entry in study.entries.items():
        for spec in entry.data:
            settings = spec.model_dump(exclude_defaults=True, exclude={"name"})
            told = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items())
            if spec not in study.data:
                read.setdefault(f"{spec.name} with {told or 'its own settings'}", []).append(label)
    return [
        f"{joined(labels)} {'was' if len(labels) == 1 else 'were'} {done} {what}."
        for done, found in (("trained with", departed), ("given", read))
        for what, labels in found.items()
    ]


def published(study: "Study", against: str | None = None) -> list[Published]:
    """The printed rows that the page wants beside ours; `against` may want none, or a page's too.

    A page of one's own names its columns as the report does, `digits/accuracy` or `parameters`.
    """
    from lightning_bench.reports.tables import printed_tables

    if against == "none":
        return []
    found = []
    try:
        for table, columns in study.published.items():
            if table not in printed_tables.names():
                raise UserError(
                    f"unknown printed table {table!r}{nearest(table, printed_tables.names())}"
                )
            found += printed_tables.rows(table, columns)
    except ValueError as error:
        raise UserError(f"{study.name}: {error}") from None
    if against == "published" and not found:
        raise UserError(f"{study.name} names no printed table; --against PATH reads one of yours")
    return found if against in (None, "published") else [*found, *_own(study, Path(against))]


def _own(study: "Study", path: Path) -> list[Published]:
    """The rows of a page of the user's."""
    from lightning_bench.reports.tables import printed_tables

    try:
        table = printed_tables.load_page(path)
    except OSError as error:
        raise UserError(
            f"--against {path}: {error.strerror}; it takes published, none, or a page"
        ) from None
    except ValueError as error:
        raise UserError(f"--against {error}") from None
    ids = [f"{name}/{metric}" for name, d in study.datasets.items() for metric in d.metrics]
    known = {column: column for column in table.columns if column in [*ids, "parameters"]}
    if not known.keys() - {"parameters"}:
        raise UserError(f"--against {path}: no column is one of {', '.join(ids)}")
    return printed_tables.beside(table, path.stem, known)


def _runs(plan: "Plan", store: "Store") -> list[Run]:
    groups = {label: entry.group for label, entry in plan.study.entries.items()}
    runs = store.runs.relative_to(store.root)
    return [
        Run(
            entry=planned.run.entry,
            group=groups[planned.run.entry],
            dataset=planned.run.dataset,
            seed=planned.run.spec.seed,
            key=planned.key,
            state=_state(planned),
            reason=planned.reason,
            record=planned.attempt.record if planned.attempt else None,
            checksum=planned.attempt.checksum if planned.attempt else "",
            folder=f"{runs}/{planned.attempt.folder.name}" if planned.attempt else None,
            earlier=_earlier(planned.attempt, store) if planned.attempt else [],
        )
        for planned in plan.runs
    ]


def _state(planned: "PlannedRun") -> State:
    record = planned.attempt.record if planned.attempt else None
    return "pruned" if record and record.status == "pruned" else planned.state


def _earlier(newest: "stores.Attempt", store: "Store") -> list[Attempt]:
    """What came before the record; a newest attempt that left none is among it, once it ended."""
    from lightning_bench.reports.tables.failed_attempts import of_record

    found = []
    ended = [] if newest.record or newest.state == "running" else [newest]
    for attempt in [*store.earlier(newest), *ended]:
        log = str((attempt.folder / "log.txt").relative_to(store.root))
        if attempt.record:
            found.append(of_record(attempt.record, log))
        elif attempt.state != "running":
            damaged = (
                attempt.state == "damaged" or (attempt.folder / "record.json.damaged").exists()
            )
            cause = f"its record is damaged: {attempt.problem}".rstrip(": ")
            found.append(
                Attempt(
                    number=attempt.number,
                    end="damaged" if damaged else "interrupted",
                    cause=cause if damaged else "ended without a record",
                    log=log,
                )
            )
    return found
