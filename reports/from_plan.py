"""What a report reads of a plan and its store: runs, predictions, environments, examples of data.

Those who only build a report from what is in memory need nothing of this.
"""

from collections.abc import Collection
from contextlib import suppress
from math import comb
from typing import Any

from lightning_bench.bench.plan.plan import Plan, PlannedRun
from lightning_bench.bench.store.record import Environment, Examples
from lightning_bench.bench.store.store import Damaged, Store
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.tables import failed_attempts

#: A report compares trained models on the test examples up to these; it takes about a second.
MOST_PAIRS, MOST_EXAMPLES = 300, 2_000_000
#: It reads what is kept beside the predictions, for reliability diagrams, of up to so many runs.
MOST_DIAGRAMS = 1_000


def runs(plan: Plan, store: Store) -> list[ReportedRun]:
    """The study's own runs, each with its record and the attempts before it."""
    return [_run(plan, store, planned) for planned in plan.runs]


def before(plan: Plan, store: Store) -> dict[str, list[ReportedRun]]:
    """The stages' runs that each entry starts from, by its label."""
    stages = {planned.key: _run(plan, store, planned) for planned in plan.before}
    keys = {
        label: [stage.spec.key for stage in entry.lineage]
        for label, entry in plan.study.resolved.items()
        if entry.lineage
    }
    return {
        label: [stages[key] for key in of_entry if key in stages]
        for label, of_entry in keys.items()
    }


def _run(plan: Plan, store: Store, planned: PlannedRun) -> ReportedRun:
    run, attempt, record = planned.run, planned.attempt, planned.record
    entry = plan.study.entries.get(run.entry)  # none of a stage
    return ReportedRun(
        entry=run.entry,
        group=entry.group if entry else "",
        dataset=run.dataset,
        seed=run.spec.seed,
        varied=run.varied,
        key=planned.key,
        state="pruned" if record and record.status == "pruned" else planned.state,
        reason=planned.reason,
        record=record,
        checksum=attempt.checksum if attempt else "",
        folder=f"{store.runs.name}/{attempt.folder.name}" if attempt else None,
        earlier=failed_attempts.before(attempt, store) if attempt else [],
    )


def environments(plan: Plan, store: Store) -> dict[str, Environment]:
    """Hardware and packages of the runs, by digest."""
    digests = {planned.record.provenance.environment for planned in plan.runs if planned.record}
    kept = {digest: store.read_environment(digest) for digest in sorted(filter(None, digests))}
    return {digest: environment for digest, environment in kept.items() if environment}


def sheets(plan: Plan, store: Store) -> dict[str, Examples]:
    """What each data set looks like, by the newest data that a run was made with."""
    fingerprints = {
        planned.run.dataset: record.data.fingerprint
        for planned in plan.runs
        if (record := planned.record) and record.data
    }
    kept = {name: store.read_examples(mark) for name, mark in fingerprints.items()}
    return {name: examples for name, examples in kept.items() if examples}


def few_predictions(plan: Plan) -> dict[str, Any] | None:
    """Per-example results by key; None where it is long work, which `bench compare` does a pair."""
    pairs = comb(len(plan.study.entries), 2) * len(plan.study.data)
    scored = sum(planned.record.scored for planned in plan.runs if planned.record)
    return predictions(plan) if pairs <= MOST_PAIRS and scored <= MOST_EXAMPLES else None


def reliability(plan: Plan) -> dict[str, Any] | None:
    """The bins of the reliability diagrams of finished runs by key; None of very many runs."""
    from lightning_bench.bench.store import predictions as files

    by_key: dict[str, Any] = {}
    if len(plan.runs) > MOST_DIAGRAMS:
        return None
    for planned in plan.runs:
        record, attempt = planned.record, planned.attempt
        if planned.state == "done" and attempt and record and record.probabilities:
            with suppress(Damaged):
                arrays = files.read_probabilities(
                    attempt.folder,
                    record.probabilities,
                    only=("reliability",),
                    recorded_ns=files.recorded_ns(attempt.folder),
                )
                if "reliability" in arrays:  # not of several right classes
                    by_key[planned.key] = arrays["reliability"]
    return by_key


def arrays(plan: Plan) -> dict[str, dict[str, Any]]:
    """What the probes of finished runs kept, of each entry's first run on each data set."""
    from lightning_bench.bench.store import predictions as files

    found: dict[tuple[str, str], PlannedRun] = {}
    for planned in plan.runs if any(f.probe for f in plan.study.figures) else ():
        record = planned.record
        if planned.state == "done" and planned.attempt and record and record.arrays:
            place = (planned.run.entry, planned.run.dataset)
            first = found.setdefault(place, planned)
            if planned.run.spec.seed < first.run.spec.seed:
                found[place] = planned
    kept: dict[str, dict[str, Any]] = {}
    for planned in found.values():
        if planned.attempt and planned.record and planned.record.arrays:
            with suppress(Damaged):
                folder = planned.attempt.folder
                kept[planned.key] = files.read_arrays(folder, planned.record.arrays)
    return kept


def predictions(plan: Plan, entries: Collection[str] | None = None) -> dict[str, Any]:
    """The predictions of finished runs, of some entries or all; a damaged file is left out."""
    from lightning_bench.bench.store import predictions as files

    by_key = {}
    for planned in plan.runs:
        # What varies one source alone is compared with nothing.
        compared = planned.state == "done" and not planned.run.varied
        wanted = compared and (entries is None or planned.run.entry in entries)
        if wanted and planned.attempt and planned.record and planned.record.predictions:
            with suppress(Damaged):
                folder = planned.attempt.folder
                by_key[planned.key] = files.read(folder, planned.record.predictions)
    return by_key
