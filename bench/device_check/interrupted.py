"""Step 5: runs that are ended by SIGTERM in the middle, and go on from their checkpoint."""

from dataclasses import dataclass

from lightning_bench.bench.device_check import forked_child
from lightning_bench.bench.device_check.against_cpu import expect_equal_bits
from lightning_bench.bench.device_check.context import CheckContext, demand_done
from lightning_bench.bench.device_check.device_report import Findings
from lightning_bench.bench.device_check.networks import at_precision
from lightning_bench.bench.execute.executor import Executor, Listener
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Epoch


def interrupted(check: CheckContext, found: Findings) -> str:
    """End runs in the middle and resume them: equal bit for bit to those that nobody ended."""
    specs = dict(check.paced)
    if check.device == "cuda":
        specs |= {f"{n}, fp16": at_precision(spec, "fp16") for n, spec in check.paced.items()}
    whole = check.trained("uninterrupted", specs)
    demand_done(whole, check.device)
    for name, spec in specs.items():
        _interrupt(check, name, spec)
        folder = check.store("interrupted").folder(spec.key, 1)
        if spec.recipe.precision == "fp16":
            scale = forked_child.call("loss_scale", folder / "checkpoints")
            found.between(f"{name}, scale of the loss", scale or 0.0, 1.0)
        resumed = check.train("interrupted", {name: spec})
        demand_done(resumed, check.device)
        found.equal(f"{name}, resumed from attempts", resumed[name].resumed_from, [1])
        expect_equal_bits(found, name, whole[name], resumed[name])
    return f"{len(specs)} runs ended in the middle and resumed, equal bit for bit"


def _interrupt(check: CheckContext, name: str, spec: RunSpec) -> None:
    """Run until the first epoch is over, then have SIGTERM sent."""
    executor, work = check.executor("interrupted", {name: spec})
    executor.listeners = [*executor.listeners, _StopAfterAnEpoch(executor)]
    try:
        executor.run(work)
    except KeyboardInterrupt:  # so an executor ends that was stopped
        if not executor.stopping:
            raise


@dataclass
class _StopAfterAnEpoch(Listener):
    """Stops the executor, which sends SIGTERM, as soon as it hears of an epoch."""

    executor: Executor

    def progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        """Stop."""
        self.executor.stop()
