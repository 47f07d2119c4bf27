"""Learning-rate schedules: the factor of the peak learning rate, by the progress from 0 to 1.

Warm-up comes before all of them: `progress` is of the steps after it. The user's own is called with
`progress` and its arguments.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks.own_callable import own_callable

Factor = Callable[[float], float]


def linear(progress: float) -> float:
    """Down to nothing in a line."""
    return max(0.0, 1.0 - progress)


def cosine(progress: float) -> float:
    """Down to nothing along half a cosine."""
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


def one_cycle(progress: float, *, start: float = 0.04, end: float = 0.0) -> float:
    """Up from `start` along a cosine for 30 % of the way, then down to `end` (Smith, 2018)."""
    up = 0.3
    if progress < up:
        return start + (1 - start) * (1 - cosine(progress / up))
    return end + (1 - end) * cosine((progress - up) / (1 - up))


def trapezoid(progress: float, *, cooldown: float = 0.2) -> float:
    """Constant, then down to nothing in a line over the last part, the `cooldown`."""
    return 1.0 if progress <= 1 - cooldown else max(0.0, 1.0 - progress) / cooldown


def triangle(progress: float) -> float:
    """Up from a fifth in a line for 23 % of the way, then down to 7 %, as speed runs have it."""
    peak, first, last = 0.23, 0.2, 0.07
    if progress < peak:
        return first + (1 - first) * progress / peak
    return 1 - (1 - last) * min(1.0, (progress - peak) / (1 - peak))


def step(
    progress: float, *, at: str | float = "", every: float = 0.0, factor: float = 0.1
) -> float:
    """`factor` times what it was, at parts of the way such as `0.5|0.75`, or every such part."""
    places = [float(part) for part in str(at).split("|") if part]
    passed = sum(progress >= place for place in places)
    if every:
        passed += math.floor(progress / every + 1e-9)
    return float(factor**passed)


_NAMED: Mapping[str, Callable[..., float]] = {
    "constant": lambda progress: 1.0,
    "linear": linear,
    "cosine": cosine,
    "one-cycle": one_cycle,
    "trapezoid": trapezoid,
    "triangle": triangle,
    "step": step,
}


def schedule(name: str, arguments: Mapping[str, Any], warmup_steps: int, steps: int) -> Factor:
    """The schedule of this name, of a training of so many steps, as many of them warm-up."""
    if name == "inverse-sqrt":
        # As Vaswani et al. (2017): it falls from the end of the warm-up as 1 / √step.
        first = max(1, warmup_steps)
        left = max(1, steps - warmup_steps)
        return lambda progress: math.sqrt(first / (first + progress * left))
    if ":" in name:
        own = own_callable(name)
        try:
            float(own(0.5, **arguments))
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"{name}: a schedule takes the progress, from 0 to 1, and gives a factor: {error}"
            ) from None
        return partial(own, **arguments)
    return partial(_NAMED[name], **arguments)
