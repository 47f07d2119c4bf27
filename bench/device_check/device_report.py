"""Schema of the device check's report: what was measured at each step, against what."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from lightning_bench.bench.store.record import Environment, Stored
from lightning_bench.common.messages import ranges

SCHEMA_VERSION = 1
_SHOWN = 3
#: Of the names of figures that README's table has.
TRAIN_LOSS, UNTIL_RECORD, TFLOPS = "train loss of epoch 1", "until the record", "TFLOP/s"

Result = Literal["ok", "failed", "skipped"]
Value = bool | int | float | str | list[int] | None


class Skipped(Exception):
    """A step that has no meaning here; the message says why."""


class _Part(Stored):
    # JSON has no NaN, and one is a finding.
    model_config = ConfigDict(ser_json_inf_nan="strings")


class Figure(_Part):
    """A measured value beside the expected one."""

    name: str
    measured: Value
    expected: Annotated[str, Field(description="empty where it is only told")] = ""
    met: bool = True

    @property
    def text(self) -> str:
        """The figure in words."""
        expected = f", expected {self.expected}" if self.expected else ""
        return f"{self.name}: {_text(self.measured)}{expected}"


class StepResult(_Part):
    """What came of one step."""

    number: int
    title: str
    result: Result
    summary: Annotated[str, Field(description="why, where it failed or was skipped")]
    seconds: float
    figures: list[Figure] = []
    notes: list[str] = []


class DeviceReport(_Part):
    """All that the check found on one machine."""

    schema_version: int = SCHEMA_VERSION
    bench_version: str
    git_revision: str | None
    git_dirty: bool | None
    started: Annotated[str, Field(description="UTC, ISO 8601")]
    ended: str
    command: list[str]
    device: Literal["cpu", "cuda"]
    devices: int
    launcher: Literal["local", "slurm"]
    quick: bool
    environment: Annotated[Environment, Field(description="of the host that the check ran on")]
    steps: list[StepResult]

    def markdown_row(self) -> str:
        """The row of README's table: the device, what came of the steps, and some figures."""
        machine = self.environment
        host = f"{machine.cpu}, {machine.cores} cores"
        figures = [figure for step in self.steps for figure in step.figures]
        speeds = {f.name.partition(",")[0]: f.measured for f in figures if TFLOPS in f.name}
        cells = [
            f"{self.devices} × {machine.gpus[0]}" if self.device == "cuda" else host,
            *(self._numbers(result) for result in ("ok", "skipped", "failed")),
            f"{largest(figures, TRAIN_LOSS):.1g}",
            f"{largest(figures, UNTIL_RECORD):.1f} s",
            ", ".join(f"{precision} {speed:.3g}" for precision, speed in speeds.items()),
            f"{self.bench_version}, torch {machine.packages.get('torch', '')}",
            self.ended[:10],
        ]
        return f"| {' | '.join(cells)} |"

    def _numbers(self, result: Result) -> str:
        """The steps of which this came."""
        return ranges(step.number for step in self.steps if step.result == result) or "none"

    @property
    def failed(self) -> bool:
        """Whether any step failed."""
        return any(step.result == "failed" for step in self.steps)


@dataclass
class Findings:
    """The figures of a step, as they come in."""

    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def unmet(self) -> list[Figure]:
        """The figures that are not as expected."""
        return [figure for figure in self.figures if not figure.met]

    def tell(self, name: str, measured: Value) -> None:
        """A fact that nothing is expected of."""
        self.figures.append(Figure(name=name, measured=measured))

    def expect(self, name: str, measured: Value, expected: str, *, met: bool) -> None:
        """A figure with an expectation in words."""
        self.figures.append(Figure(name=name, measured=measured, expected=expected, met=met))

    def equal(self, name: str, measured: Value, wanted: Value) -> None:
        """A figure that is expected to be just this."""
        self.expect(name, measured, _text(wanted), met=measured == wanted)

    def between(
        self, name: str, measured: float, low: float, high: float = math.inf, unit: str = ""
    ) -> None:
        """A figure that is expected within bounds, which are inclusive; NaN is in no bounds."""
        bounds = f"{low:g} to {high:g}" if high < math.inf else f"{low:g} at least"
        met = low <= measured <= high
        self.expect(name, measured, f"{bounds} {unit}".rstrip(), met=met)

    def at_most(self, name: str, measured: float, most: float, unit: str = "") -> None:
        """A figure that is expected not to exceed this."""
        self.expect(name, measured, f"{most:g} {unit} at most".replace("  ", " "),
                    met=measured <= most)  # fmt: skip

    def largest(self, part: str) -> float:
        """The largest of the numbers whose names have this part."""
        return largest(self.figures, part)

    def failures(self) -> str:
        """The first figures that are not as expected, in one line."""
        texts = [figure.text for figure in self.unmet]
        more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return "; ".join(texts[:_SHOWN]) + more


def relative(measured: float, wanted: float) -> float:
    """How far a figure is from another one, as a share of it."""
    return abs(measured - wanted) / abs(wanted) if wanted else math.inf


def largest(figures: Iterable[Figure], part: str) -> float:
    """The largest of the numbers whose names have this part; NaN where there are none."""
    values = [f.measured for f in figures if part in f.name and isinstance(f.measured, float)]
    return max(values, default=math.nan)


def _text(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
