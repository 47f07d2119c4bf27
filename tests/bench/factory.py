"""Records made up for tests of what reads them."""

from lightning_bench.bench.spec import DataSpec, ModelSpec, RunSpec
from lightning_bench.bench.store.record import Cost, Provenance, Record

SPEC = RunSpec(model=ModelSpec(name="mlp"), data=DataSpec(name="digits"))

COST = Cost(
    parameters=1,
    trainable_parameters=1,
    train_s=1,
    total_s=2.5,
    device_h=1,
    train_examples_per_s=1,
    peak_memory_bytes=1,
)

PROVENANCE = Provenance(
    environment=None,
    sources={"models/mlp.py": "0" * 12},
    command=["bench"],
    bench_version="0",
    git_revision=None,
    git_dirty=None,
    host="h",
    device="cpu",
    devices=1,
    threads=1,
)


def record(spec: RunSpec = SPEC, attempt: int = 1, **changes: object) -> Record:
    values = {
        "key": spec.key,
        "attempt": attempt,
        "status": "done",
        "spec": spec,
        "started": "2026-01-01T00:00:00.000+00:00",
        "ended": "2026-01-01T00:00:01.000+00:00",
        "metrics": {"accuracy": 0.5},
        "provenance": PROVENANCE,
    }
    return Record(**{**values, **changes})
