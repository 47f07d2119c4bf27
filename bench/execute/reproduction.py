"""Run a record's spec again and say how the result compares, and what differs around it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lightning_bench.bench.execute.job import Execution
from lightning_bench.bench.store.record import Environment, Provenance, Record
from lightning_bench.bench.study.class_metrics import is_class_metric

_PROVENANCE = (
    "git_revision", "git_dirty", "host", "device", "device_kind", "devices", "threads", "strategy",
    "compiled",
)  # fmt: skip

_ENVIRONMENT = (
    "python", "platform", "cpu", "cores", "gpus", "settings", "driver", "libraries",
)  # fmt: skip

#: Within this absolute tolerance two results are equal but for rounding.
TOLERANCE = 1e-6

Verdict = Literal["equal bit for bit", "equal within tolerance", "different"]


@dataclass(frozen=True)
class Reproduction:
    """The verdict, the metrics that moved (was, is), and what is not as it was."""

    verdict: Verdict
    moved: dict[str, tuple[float, float]]
    circumstances: list[str]


def execution_of(provenance: Provenance) -> Execution:
    """The same devices, threads, strategy and compilation as a record's."""
    return Execution(
        device="cuda" if provenance.device == "cuda" else "cpu",
        devices=provenance.devices,
        threads=provenance.threads,
        strategy="fsdp" if provenance.strategy == "fsdp" else "ddp",
        compile=provenance.compiled,
    )


def compare(
    before: Record,
    after: Record,
    environments: Mapping[str, Environment],
) -> Reproduction:
    """Compare two records of one spec: test metrics, predictions and learning curve.

    Metrics of classes that the first record could not have yet are left out.
    """
    names = before.metrics.keys() | {name for name in after.metrics if not is_class_metric(name)}
    pairs = {
        name: (before.metrics.get(name, math.nan), after.metrics.get(name, math.nan))
        for name in sorted(names)
    }
    moved = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    same_bits = (
        not moved
        and before.predictions == after.predictions
        and before.weights == after.weights
        and before.probabilities == after.probabilities
        and before.curve == after.curve
    )
    close = all(abs(was - now) <= TOLERANCE for was, now in pairs.values())
    verdict: Verdict = "different"
    if same_bits:
        verdict = "equal bit for bit"
    elif close:
        verdict = "equal within tolerance"
    return Reproduction(verdict, moved, _circumstances(before, after, environments))


def _circumstances(
    before: Record, after: Record, environments: Mapping[str, Environment]
) -> list[str]:
    old, new = before.provenance, after.provenance
    differences = [
        f"{name.replace('_', ' ')}: {getattr(old, name)} → {getattr(new, name)}"
        for name in _PROVENANCE
        if getattr(old, name) != getattr(new, name)
    ]
    changed = sorted(
        path
        for path in old.sources.keys() | new.sources.keys()
        if old.sources.get(path) != new.sources.get(path)
    )
    if changed:
        differences.append(f"sources: {', '.join(changed)}")
    if before.data and after.data and before.data.fingerprint != after.data.fingerprint:
        differences.append(
            f"data: fingerprint {before.data.fingerprint[:12]} → {after.data.fingerprint[:12]}"
        )
    was, now = environments.get(old.environment or ""), environments.get(new.environment or "")
    if was and now:
        differences += _environment(was, now)
    elif old.environment != new.environment:
        differences.append("environment: that of the first run is not in the store")
    return differences


def _environment(was: Environment, now: Environment) -> list[str]:
    differences = [
        f"{name}: {getattr(was, name)} → {getattr(now, name)}"
        for name in _ENVIRONMENT
        if getattr(was, name) != getattr(now, name)
    ]
    names = sorted(was.packages.keys() | now.packages.keys())
    return differences + [
        f"package {name}: {was.packages.get(name, 'none')} → {now.packages.get(name, 'none')}"
        for name in names
        if was.packages.get(name) != now.packages.get(name)
    ]
