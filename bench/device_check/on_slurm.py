"""Step 11: steps 7 and 8 as jobs of SLURM, on several nodes."""

from dataclasses import replace

from lightning_bench.bench.device_check.all_devices import all_devices
from lightning_bench.bench.device_check.context import CheckContext
from lightning_bench.bench.device_check.device_report import Findings, Skipped
from lightning_bench.bench.device_check.failing_ranks import failing_ranks
from lightning_bench.bench.execute.slurm import device_of, queued
from lightning_bench.bench.store.store import Store


def on_slurm(check: CheckContext, found: Findings) -> str:
    """Send the runs of steps 7 and 8 to the queue; none of them is left there."""
    if check.slurm is None:
        raise Skipped("needs --launcher slurm")
    on_cluster = replace(
        check,
        folder=check.folder / "slurm",
        device=device_of("auto", check.slurm),
        devices=check.slurm.devices(None),
        queue=check.slurm,
    )
    found.notes.append("processes that are left are looked for on this host alone")
    try:
        together = all_devices(on_cluster, found)
        failing = failing_ranks(on_cluster, found)
    finally:
        for store in on_cluster.folder.glob("*"):
            for job in queued(Store(store)):
                if not job.over:
                    job.cancel()
    return f"{check.slurm.nodes} nodes: {together}; {failing}"
