"""Looks at a study that grows: which one is in progress, what it spent, and what comes next."""

import errno
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lightning_bench.bench.store.look_ledger import Claimed, LookLedger, LookTaken
from lightning_bench.bench.study.claims import named_pairs
from lightning_bench.bench.study.looks import stops
from lightning_bench.common.messages import counted, duration

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan, PlannedRun
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.study import Study
    from lightning_bench.reports.report import Report
    from lightning_bench.reports.request import Request


def in_progress(study: "Study", store: "Store") -> "Study":
    """The study with the seeds of the look that it is at: the first that holds all runs tried."""
    if study.looks is None:
        return study
    from lightning_bench.bench.search import ledger

    folders = ledger.search_folders(study.cells(), store.root)
    chosen = ledger.chosen([folder.ledger() for folder in folders])
    tried = {key for key, _ in store.attempts()}
    seeds = {run.spec.seed for run in study.runs(chosen) if run.key in tried}
    most = max((study.seeds.index(seed) + 1 for seed in seeds), default=0)
    return study.with_seeds(next(number for number in stops(study) if number >= most))


def already_decided(plan: "Plan", store: "Store") -> "Study | None":
    """The study as of the earlier look that decided everything, if one did."""
    study = plan.study
    if study.looks is None or len(study.seeds) == stops(study)[0]:
        return None
    from lightning_bench.bench.cli.build_report import request_of
    from lightning_bench.reports import from_plan
    from lightning_bench.reports.statistics import ranking, samples

    request = request_of(plan, store)
    found = ranking.rank(request, samples.collect(request, from_plan.runs(plan, store)))
    decided = [pair.decided_at for pair in found.comparisons if pair.decided_at]
    if found.look.undecided or not decided:
        return None
    return study.with_seeds(max(decided))


def this_look(plan: "Plan") -> LookTaken | None:
    """What the ledger would say of a look at these runs; nothing where nothing is trained."""
    study = plan.study
    if not plan.runs:
        return None
    searched = {
        (cell.entry, cell.dataset): cell.digest for cell in study.cells() if cell.repeat == 0
    }
    cells: dict[str, dict[str, str]] = {}
    sources: dict[str, dict[str, str]] = {}
    parents = {planned.key: planned for planned in plan.before}
    for planned in plan.runs:
        run = planned.run
        here = cells.setdefault(run.dataset, {})
        if run.entry not in here:
            # Of a repeated search each seed has values of its own: what was searched names it.
            key = searched.get((run.entry, run.dataset))
            here[run.entry] = key or run.spec.model_copy(update={"seed": 0}).key
            code = [sorted(step.sources.items()) for step in _lineage(planned, parents)]
            sources.setdefault(run.dataset, {})[run.entry] = _digest(code)
    spec_of = {label: [here.get(label) for here in cells.values()] for label in study.entries}
    pairs = [(spec_of[p.a], spec_of[p.b], p.directed, p.on) for p in named_pairs(study)]
    entries = sorted(sorted(here.values()) for here in cells.values())
    results = sorted(
        (planned.key, sorted(planned.record.metrics.items()))
        for planned in plan.runs
        if planned.state == "done" and planned.record
    )
    e_values = study.looks is not None and study.looks.grow is not None
    return LookTaken(
        study=study.name,
        scale=study.scale,
        entries=list(study.entries),
        seeds=study.seeds,
        n=len(study.seeds),
        alpha=0.0,
        method="e-values" if e_values else "max-T",
        named=bool(pairs),
        cells=cells,
        family=_digest([entries, sorted(map(str, pairs))]),
        results=_digest(results),
        sources=sources,
    )  # fmt: skip


def _lineage(planned: "PlannedRun", parents: "Mapping[str, PlannedRun]") -> "Iterator[PlannedRun]":
    """The run, what it starts from, and what that starts from."""
    step: PlannedRun | None = planned
    while step is not None:
        yield step
        start = step.run.spec.start
        step = parents.get(start.key) if start is not None else None


def note(report: "Report", request: "Request", store: "Store") -> None:
    """Put the look that a report is into the ledger, if anything could have been claimed in it.

    Before anybody sees it. A store that can't be written keeps no ledger, as it gets no runs.
    """
    look, this = report.look, request.this_look
    if look is None or this is None or not look.possible:
        return
    claimed = [
        Claimed(dataset=p.dataset, a=winner, b=loser, p=p.p_adjusted or 0.0)
        for p in report.comparisons
        if p.verdict != "undecided" and not p.decided_at
        for winner, loser in [(p.a, p.b) if p.verdict == "better" else (p.b, p.a)]
    ]
    update = {"alpha": look.alpha, "claimed": claimed, "undecided": look.undecided}
    try:
        LookLedger(store.root).add(this.model_copy(update=update))
    except OSError as error:
        if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise


def next_look(
    study: "Study", report: "Report", plan: "Plan", jobs: int
) -> tuple["Study | None", str]:
    """The study with the seeds of its next look, or nothing where it stops; and why, in a line."""
    look = report.look
    if study.looks is None or look is None or plan.to_run() or plan.running():
        return None, ""
    later = [number for number in stops(study) if number > look.seeds]
    place = f"{study.name} ({study.scale})"
    a_seed_s = sum(planned.expected_s for planned in plan.runs) / max(len(plan.study.seeds), 1)

    def cost(seeds: int) -> str:
        return f"about {duration(seeds * a_seed_s / jobs)}"

    if not look.undecided:
        what = "the comparison is" if look.pairs == 1 else f"all {look.pairs} comparisons are"
        line = f"{place}: {what} decided at {look.seeds} seeds"
        if later:
            more = later[-1] - look.seeds
            line += f"; the other {counted(more, 'seed')} ({cost(more)}) are not needed"
        return None, line
    if not look.alpha:
        return None, f"{place}: nothing new may be claimed: more seeds would show no more"
    undecided = counted(look.undecided, "comparison")
    if not later:
        return None, f"{place}: {undecided} undecided at the last look, {look.seeds} seeds"
    more = later[0] - look.seeds
    line = f"{place}: {undecided} undecided at {look.seeds} seeds; on to {later[0]} ({cost(more)})"
    return study.with_seeds(later[0]), line


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
