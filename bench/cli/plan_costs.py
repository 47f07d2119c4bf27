"""What a plan will cost: time, memory, disk, energy and money, in lines under its table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan import estimate, machines
from lightning_bench.bench.plan.estimate import Estimate, Unknown
from lightning_bench.bench.plan.plan import probability_bytes
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.study import inputs
from lightning_bench.common.messages import counted, duration

if TYPE_CHECKING:
    from lightning_bench.bench.execute.job import DeviceType
    from lightning_bench.bench.plan.expected_times import Expected
    from lightning_bench.bench.plan.machines import DeviceRates
    from lightning_bench.bench.plan.plan import Plan, PlannedRun
    from lightning_bench.bench.study.study import Study


@dataclass
class Costs:
    """The costs of a study's runs on a machine; this host where `on` names none."""

    study: "Study"
    on: str | None = None
    utilisation: float | None = None
    price: float | None = None  # of a device-hour
    device: "DeviceType | None" = None  # here, where `on` names no machine
    devices_a_run: int | None = None
    _unknown_gpu: bool = field(default=False, init=False)
    _machine: "DeviceRates | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        """A UserError where the machine is unknown, or what is asked says nothing of this host."""
        if self.utilisation is not None and not 0 < self.utilisation <= 1:
            raise UserError("--mfu is a share of a machine's peak: more than 0, at most 1")
        chosen = machines.chosen(self.on, self.utilisation, self._cards)
        self._machine, self._unknown_gpu = chosen.rates, chosen.unknown_gpu

    def _cards(self) -> list[str]:
        """The names of this host's GPUs that its runs are to use."""
        if self.device == "cpu":
            return []
        from lightning_bench.bench.execute.devices import find

        cards = [card.name for card in find().cards]
        # Earlier runs may tell of a GPU where there is none today; FLOPs can't.
        return cards or ([""] if self.device == "cuda" else [])

    @property
    def _of_host(self) -> bool:
        return self.on is None

    @property
    def machine(self) -> "DeviceRates":
        """The machine; the rates of this host's cores are measured where that was not done."""
        if self._machine is None:
            from lightning_bench.bench.measure.host_rates import host

            self._machine = machines.with_utilisation(host(self.study.threads), self.utilisation)
        return self._machine

    @property
    def devices(self) -> int:
        """The devices of a run."""
        given = self.devices_a_run or self.study.devices
        return given or self.study.cluster.devices(None)

    @property
    def asked_for(self) -> "tuple[str, int] | None":
        """The kind and number of devices of which alone earlier runs are to tell, if any."""
        return (self.device, self.devices) if self.device else None

    def estimates(self, specs: Sequence[RunSpec]) -> list[Estimate | Unknown]:
        """Estimates of runs, for the plan; models that were never counted take some seconds."""
        if self._unknown_gpu:
            return [Unknown("no sheet of its GPU is known: name a like one (--on)")] * len(specs)
        from rich.console import Console

        with Console(stderr=True).status("counting the models …"):
            return estimate.estimates(specs, lambda: self.machine, self.devices)

    def lines(self, plan: "Plan", jobs: int | None) -> Iterator[str]:
        """The time of what is to be run and what it rests on, memory, disk, energy and money."""
        to_run = plan.to_run()
        expected = [(p.expected, _title(p), 1) for p in to_run]
        for ledger in plan.searches:
            if (time := plan.trials.get((ledger.entry, ledger.dataset))) and plan.study.search:
                left = ledger.budget.trials - len(ledger.trials)
                runs = left * len(plan.study.search.seeds)
                expected.append((time, f"{ledger.entry} on {ledger.dataset}", runs))
        if not expected:
            return
        yield from self._time(expected, jobs)
        yield from self._memory([(time, title) for time, title, _ in expected])
        yield from self._disk(plan)

    def _time(
        self, expected: "Sequence[tuple[Expected, str, int]]", jobs: int | None
    ) -> Iterator[str]:
        known = [(time, runs) for time, _, runs in expected if time.seconds]
        unknown = {
            time.estimate.reason: title
            for time, title, _ in expected
            if isinstance(time.estimate, Unknown)
        }
        if known:
            device_s = sum(t.seconds * runs * self._devices_of(t) for t, runs in known)
            slots = self.machine.devices if jobs is None or not self._of_host else jobs
            longest = max(time.seconds for time, _ in known)
            wall_s = max(longest, device_s / slots)
            runs = sum(runs for _, runs in known)
            yield (
                f"time: about {duration(wall_s)} for {counted(runs, 'run')} on {self.machine.title}"
                f"{f', {slots} at a time' if self._of_host else ''}; {_basis(known)}"
            )
            if self.machine.watts and not self._of_host:
                kwh = device_s / 3.6e6 * self.machine.watts
                yield f"energy: at most about {kwh:,.3g} kWh, at {self.machine.watts:g} W a device"
            if self.price is not None:
                money = device_s / 3600 * self.price
                yield f"money: about {money:,.2f}, at {self.price:g} a device-hour"
        for reason, title in unknown.items():
            yield f"not estimated: {title}: {reason}"

    def _memory(self, expected: "Sequence[tuple[Expected, str]]") -> Iterator[str]:
        estimated = [
            (time.estimate, title)
            for time, title in expected
            if isinstance(time.estimate, Estimate)
        ]
        if not estimated:
            return
        largest, title = max(estimated, key=lambda pair: pair[0].memory_bytes)
        yield f"memory: at most about {_bytes(largest.memory_bytes)} a device ({title})"
        for each, title in estimated:
            if each.devices_needed > self.devices:
                yield (
                    f"  does not fit: {title} needs about {each.devices_needed} devices "
                    "(--strategy fsdp), or a smaller batch a device (recipe.accumulate)"
                )

    def _disk(self, plan: "Plan") -> Iterator[str]:
        sets = inputs.datasets(plan.study).values()
        fetched = sum({each.name: each.download_bytes for each in sets}.values())
        kept = sum(
            sum(each.splits.values()) * each.channels * each.image_size**2
            for each in sets
            if each.kind == "image" and not each.streamed
        )
        probabilities = probability_bytes(plan)
        parts = [f"{_bytes(fetched)} of data to fetch, where they are not here"] if fetched else []
        parts += [f"{_bytes(kept)} of decoded images in the cache"] if kept > 2**24 else []
        if probabilities:
            parts.append(f"at most {_bytes(probabilities)} of class probabilities")
        if parts:
            yield f"disk: {', '.join(parts)}"

    def _devices_of(self, time: "Expected") -> int:
        needed = time.estimate.devices_needed if isinstance(time.estimate, Estimate) else 1
        return max(self.devices, needed)


def _title(planned: "PlannedRun") -> str:
    return f"{planned.run.entry} on {planned.run.dataset}"


def _basis(known: "Sequence[tuple[Expected, int]]") -> str:
    """What the time rests on."""
    words = {
        "earlier runs": "by what earlier ones took",
        "other runs": "by what others took",
        "counted": "by their models' FLOPs",
    }
    counts: dict[str, int] = {}
    for time, runs in known:
        counts[time.basis] = counts.get(time.basis, 0) + runs
    if len(counts) == 1:
        return words[next(iter(counts))]
    return ", ".join(f"{runs:,} {words[basis]}" for basis, runs in counts.items())


def _bytes(size: float) -> str:
    """In the largest unit that there is one of."""
    units = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    unit, scale = next(((u, s) for u, s in units if size >= s), units[-1])
    return f"{size / scale:,.3g} {unit}"
