"""Lineage: how what becomes of a run bears on those that start from its weights. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lightning_bench.bench.store.store import Attempt

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import PlannedRun, State


def judge(
    state: "State", reason: str, attempt: Attempt | None, parent: "PlannedRun | None"
) -> tuple["State", str]:
    """The state of a run that starts from another's weights, given what it is by itself."""
    if parent is None or state == "running":
        return state, reason
    label = parent.run.entry
    if parent.state == "failed" and not parent.lost:
        return "failed", f"can't start: {label} failed ({parent.reason})"
    record = attempt.record if attempt else None
    # A run that stopped before it had weights to start from says nothing of them.
    if record is None or record.start is None or state not in {"done", "failed"}:
        return state, reason
    if parent.state != "done":
        again = "is being run again" if parent.state == "running" else "is to be run again"
        return "stale", f"it started from {label}, which {again}"
    if parent.attempt is None or parent.attempt.record is None:
        return state, reason
    if parent.attempt.record.weights != record.start.weights_sha256:
        return "stale", (
            f"it started from {label} of attempt {record.start.attempt}, "
            f"attempt {parent.attempt.number} has other weights"
        )
    return state, reason


def demand(
    before: Sequence["PlannedRun"], runs: Sequence["PlannedRun"], *, trials: bool = False
) -> list["PlannedRun"]:
    """The runs that others start from; those whose weights are wanted and gone are to be run.

    Nobody wants the weights once all that started from them is done, and no `trials` are to come.
    """
    waiting = [planned for planned in runs if _to_run(planned)]
    found = []
    for planned in reversed(before):
        wanting = sum(
            child.run.spec.start is not None and child.run.spec.start.key == planned.key
            for child in waiting
        )
        kept = planned.attempt is not None and planned.attempt.kept
        if (wanting or trials) and planned.state == "done" and not kept:
            starts = "1 run starts" if wanting == 1 and not trials else "others start"
            reason = f"done, but its weights are gone, and {starts} from them"
            found.append(replace(planned, state="missing", reason=reason))
        else:
            found.append(planned)
        if _to_run(found[-1]):
            waiting.append(found[-1])
    return found[::-1]


def _to_run(planned: "PlannedRun") -> bool:
    return planned.state in {"missing", "stale"} or (planned.state == "failed" and planned.lost)
