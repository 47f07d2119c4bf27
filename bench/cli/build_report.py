"""From a plan to a report: what `bench run`, `report`, `compare` and `sync` have in common."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lightning_bench.bench.cli import entry_facts, looks
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.store.look_ledger import LookLedger
from lightning_bench.common.files import read_regular
from lightning_bench.models.probes import PROBES
from lightning_bench.reports import from_plan, inputs_digest
from lightning_bench.reports.render.write import FORMATS, Format, kinds_of_figures, paths, write
from lightning_bench.reports.report import OnExamples, Report
from lightning_bench.reports.request import PERCENT, ModelCounts, ModelFacts, ReportedRun, Request
from lightning_bench.reports.tables import published_pages
from lightning_bench.reports.tables.depth_scaling import DEPTH

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.store.look_ledger import LookTaken
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.resolved import ResolvedEntry
    from lightning_bench.bench.study.study import Study
    from lightning_bench.data.dataset import DataSet
    from lightning_bench.reports.figures.drawing_process import DrawingProcess
    from lightning_bench.reports.figures.figure_data import FigureData


def folder(study: "Study", store: "Store", settings: Iterable[str]) -> Path:
    """Where the study's report goes; a changed study gets a folder of its own."""
    name = study.name_at_scale
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
    drawing: "DrawingProcess | None" = None,
) -> Report:
    """The report of a plan's records: read where it is current and not wanted afresh, else made.

    It is shown as soon as it is there, before its files are.
    """
    request, runs = request_of(plan, store, against), from_plan.runs(plan, store)
    wanted: list[Format] = sorted({*formats, "json"})
    current = None if afresh else _current(target, request, runs)
    if current and _whole(target, paths(current, wanted)):
        looks.note(current, request, store)
        show(current)
        return current
    from lightning_bench.reports.build import build

    kinds = kinds_of_figures(wanted)
    drawn: Iterator[tuple[str, bytes]] = iter(())

    def draw(data: "FigureData") -> None:
        from lightning_bench.reports.figures import drawing_process

        nonlocal drawn
        drawn = drawing_process.files(data, runs, kinds, drawing)

    predictions = from_plan.few_predictions(plan)
    reliability = from_plan.reliability(plan) if kinds else {}
    arrays = from_plan.arrays(plan)
    report = build(request, runs, predictions, draw if kinds else None, reliability, arrays)
    looks.note(report, request, store)
    write(report, runs, target, wanted, show, drawn)
    _write_chosen(plan, target)
    return report


def read_or_build(plan: "Plan", store: "Store", target: Path) -> Report:
    """The report of a plan's records, without its files: that at `target` if it is current."""
    request, runs = request_of(plan, store), from_plan.runs(plan, store)
    report = _current(target, request, runs)
    if report is None:
        from lightning_bench.reports.build import build

        report = build(
            request, runs, from_plan.few_predictions(plan), arrays=from_plan.arrays(plan)
        )
    looks.note(report, request, store)
    return report


def _current(target: Path, request: Request, runs: list[ReportedRun]) -> Report | None:
    """The report in a folder, if it was built from just these inputs."""
    try:
        report = Report.model_validate_json(read_regular(target / "report.json"))
    except (OSError, ValidationError):
        return None
    return report if report.inputs == inputs_digest.inputs(request, runs) else None


def _whole(target: Path, files: Iterable[Path]) -> bool:
    """Whether these files of a report are as they were when its report.json was written, last."""
    try:
        written_ns = (target / "report.json").lstat().st_ctime_ns
        states = [(target / file).lstat() for file in files]
    except OSError:
        return False
    return all(S_ISREG(state.st_mode) and state.st_ctime_ns <= written_ns for state in states)


def chosen_pages(plan: "Plan", target: Path) -> dict[Path, str]:
    """Pages of what the study's searches chose, by where they go beside its report."""
    from lightning_bench.bench.search import chosen_page
    from lightning_bench.reports.text.numbers import slug

    several = len(plan.study.data) > 1
    found = {}
    for repeat in dict.fromkeys(ledger.repeat for ledger in plan.searches):
        which = "" if repeat is None else f"-search-{repeat}"
        for name, text in chosen_page.pages(plan.study, plan.searches, repeat).items():
            suffix = (f"-{slug(name)}" if several else "") + which
            found[target / f"{plan.study.name}-chosen{suffix}.yaml"] = text
    return found


def _write_chosen(plan: "Plan", target: Path) -> None:
    from lightning_bench.common.files import write_atomically

    for path, text in chosen_pages(plan, target).items():
        write_atomically(path, text.encode())


def on_examples(plan: "Plan", store: "Store", a: str, b: str) -> list[OnExamples]:
    """Two entries on the same test examples, however large the study is."""
    from lightning_bench.reports.statistics import per_example, samples

    request = request_of(plan, store)
    runs = [run for run in from_plan.runs(plan, store) if run.entry in (a, b)]
    entries = {label: entry for label, entry in request.entries.items() if label in (a, b)}
    study = request.study.model_copy(update={"entries": entries})
    request = request.model_copy(update={"study": study})
    predictions = from_plan.predictions(plan, {a, b})
    return per_example.compare(request, samples.collect(request, runs), predictions)


def request_of(plan: "Plan", store: "Store", against: str | None = None) -> Request:
    """A plan's report as it is asked for, with what the catalogues of models and data know."""
    from lightning_bench.bench.study import class_metrics, randomness, ranking
    from lightning_bench.reports.text import provenance_lines

    study = plan.study
    datasets = study.datasets
    this = looks.this_look(plan)
    ledger = LookLedger(store.root)
    others = [look for look in ledger.read() if this and not look.same(this)]
    # Of other studies those that share a pair of runs with this one, which is told and no more.
    taken = [
        look for look in others if this and (look.study == study.name or look.compares_again(this))
    ]
    return Request(
        study=study,
        models={label: model_facts(entry) for label, entry in study.resolved.items()},
        metrics={
            name: sorted(
                [
                    *dataset.reported,
                    *class_metrics.shown(study.metrics, dataset),
                    *_measured(plan, name),
                ],
                key=lambda metric: metric != study.ranked_by,  # that one first
            )
            for name, dataset in datasets.items()
        },
        classes={
            name: [*dataset.labels, *map(str, range(len(dataset.labels), dataset.classes))]
            for name, dataset in datasets.items()
            if dataset.task == "classify"
        },
        counted=_counted(study) if not study.seeds else {},
        chance={name: chance for name, dataset in datasets.items() for chance in _chance(dataset)},
        before=from_plan.before(plan, store),
        entry_facts=entry_facts.of_figures(study),
        neutral=[
            *(metric for probe in PROBES.values() for metric in probe.metrics),
            # High in training is no merit.
            *sorted({name for dataset in datasets.values() for name in dataset.of_training}),
        ],
        higher_is_better=dict(ranking.directions(study)),
        percent=[
            *PERCENT,
            *ranking.shares(study),
            *_shifted(datasets.values()),
            *_of_training(datasets.values()),
        ],
        published=published_pages.for_study(study, against),
        facts={
            "data": "; ".join(
                f"{dataset.title} ({dataset.source}; {dataset.policy}; {dataset.licence})"
                for dataset in datasets.values()
            ),
            **{f"start, {name}": text for name, text in study.origins().items()},
            **({"looks": _known_looks(study.name, taken, ledger.unreadable)} if this else {}),
        },
        this_look=this,
        earlier_looks=taken,
        unequal=provenance_lines.departures(study),
        environments=from_plan.environments(plan, store),
        searches=plan.searches,
        randomness=randomness.of_entries(study),
        **_speeds(plan, store),
        sheets=from_plan.sheets(plan, store),
    )


def _known_looks(study: str, taken: "list[LookTaken]", unreadable: int) -> str:
    """What a report can know of other looks at its results."""
    own = sum(look.study == study for look in taken)
    known = f"{own} before this one" if own else "none before this one"
    damaged = f"; {unreadable} of its lines can't be read" if unreadable else ""
    return (
        f"The ledger of this store, looks.jsonl, knows of {known}{damaged}. Of looks in another"
        " store, or in a ledger that was deleted, it can't know."
    )


def model_facts(entry: "ResolvedEntry") -> ModelFacts:
    """The family of an entry's model and its depth, which an argument may change."""
    own = (value for name, value in entry.model.args.items() if name in DEPTH)
    depth = next((value for value in own if isinstance(value, int)), entry.variant.depth)
    return ModelFacts(family=entry.variant.family, depth=depth)


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


def _counted(study: "Study") -> dict[str, ModelCounts]:
    """What the models of a study that trains nothing count, on the first data set they read."""
    from lightning_bench.models.registry import catalogue as model_catalogue

    read = study.first_read()
    wanted = [
        (study.entries[label].model, {**dataset.facts(), **study.entries[label].args})
        for label, dataset in read.items()
    ]
    found = {}
    for label, counts in zip(read, model_catalogue.counts(wanted), strict=True):
        if "error" in counts:
            raise UserError(f"{study.name}: {label} can't be made: {counts['error']}")
        wanted_facts = ModelCounts.model_fields.keys() & counts.keys()
        found[label] = ModelCounts.model_validate({name: counts[name] for name in wanted_facts})
    return found


def _measured(plan: "Plan", dataset: str) -> list[str]:
    """What the study's probes found of any model on a data set."""
    if not plan.study.probes:
        return []
    found: set[str] = set()
    for planned in plan.runs:
        if planned.run.dataset == dataset and planned.record:
            found |= planned.record.metrics.keys()
    names = [metric for probe in plan.study.probes for metric in PROBES[probe].metrics]
    return [name for name in names if name in found]


def _chance(dataset: "DataSet") -> list[float]:
    """What guessing gives of the first metric, every class alike; none where that isn't known."""
    if dataset.metrics[0] == "accuracy":
        return [1 / dataset.classes] if dataset.classes else []
    return [0.0] if dataset.metrics[0] in {"matthews", "pearson", "spearman"} else []


def _of_training(datasets: "Iterable[DataSet]") -> list[str]:
    """Metrics of training examples that are shares, as those of the test."""
    found = {name for dataset in datasets for name in dataset.of_training}
    return sorted(name for name in found if name.removesuffix("_train") in PERCENT)


def _shifted(datasets: "Iterable[DataSet]") -> list[str]:
    """Metrics of shifted tests that are shares, as those of the plain test."""
    found = {name for dataset in datasets for name in dataset.reported}
    return sorted(name for name in found if name.partition("_shift")[0] in {*PERCENT} - {name})
