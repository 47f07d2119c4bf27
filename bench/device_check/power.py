"""Step 10: the meter of energy, on an idle device and on a busy one."""

from pathlib import Path

from lightning_bench.bench.device_check import forked_child
from lightning_bench.bench.device_check.context import CheckContext
from lightning_bench.bench.device_check.device_report import Findings, Skipped
from lightning_bench.bench.measure.energy import POWERCAP

#: Watts of an idle card; a busy one takes so many times as much, and so much of its limit.
IDLE_W, BUSIER, LIMIT = (5.0, 100.0), 2.0, 1.1


def power(check: CheckContext, found: Findings, powercap: Path = POWERCAP) -> str:
    """Read the meter over some seconds without work and some with."""
    seconds = 2.0 if check.quick else 5.0
    read = forked_child.call("power", check.device, seconds, powercap)
    if not read:
        raise Skipped("no meter of energy can be read here (RAPL of a CPU, NVML of a GPU)")
    idle, busy = read["idle_w"], read["busy_w"]
    if check.device == "cuda":
        found.between("idle", idle, *IDLE_W, "W")
        found.between("busy", busy, BUSIER * idle, unit="W")
        if read["limit_w"] is not None:
            found.at_most("busy, of the power limit", busy / read["limit_w"], LIMIT)
    else:
        # A processor idles as its other users let it.
        found.tell("idle", idle)
        found.expect("busy", busy, f"more than the {idle:.4g} W of idling", met=busy > idle)
    return f"{idle:.0f} W idle, {busy:.0f} W busy by {read['source']}"
