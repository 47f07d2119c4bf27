"""Activation functions with their derivatives, and sinusoidal positions, without torch.

The formulas are those of `models.layers`, which a test compares, gradients too: a report draws them
where nothing is trained.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lightning_bench.reports.statistics.inference import Floats

_erf = np.vectorize(math.erf, otypes=[float])
_SQRT_2, _SQRT_2PI = math.sqrt(2), math.sqrt(2 * math.pi)
_C, _CUBIC = math.sqrt(2 / math.pi), 0.044715  # of GELU's tanh form
_SLOPE = 0.25  # of PReLU, before it is learnt

Function = Callable[[Floats], Any]


def _logistic(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def _normal(x: Floats) -> Floats:
    """The normal distribution's share below x."""
    return np.asarray((1 + _erf(x / _SQRT_2)) / 2)


def _inner(x: Floats) -> Floats:
    return np.asarray(np.tanh(_C * (x + _CUBIC * x**3)))


#: Each function and the derivative by which it is trained: the step's is the straight-through one.
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "identity": (lambda x: x, lambda x: np.ones(x.shape)),
    "step": (lambda x: 1.0 * (x >= 0), lambda x: 1.0 * (np.abs(x) <= 1)),
    "logistic": (_logistic, lambda x: _logistic(x) * (1 - _logistic(x))),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "arctan": (np.arctan, lambda x: 1 / (x**2 + 1)),
    "relu": (lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
    "prelu": (lambda x: np.where(x > 0, x, _SLOPE * x), lambda x: np.where(x > 0, 1.0, _SLOPE)),
    "elu": (
        lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        lambda x: np.where(x > 0, 1.0, np.exp(np.minimum(x, 0))),
    ),
    "softplus": (lambda x: np.logaddexp(0, x), _logistic),
    "gelu": (
        lambda x: x * _normal(x),
        lambda x: _normal(x) + x * np.exp(-(x**2) / 2) / _SQRT_2PI,
    ),
    "gelu-tanh": (
        lambda x: x / 2 * (1 + _inner(x)),
        lambda x: (1 + _inner(x)) / 2 + x / 2 * (1 - _inner(x) ** 2) * _C * (1 + 3 * _CUBIC * x**2),
    ),
}


def sinusoids(length: int, width: int) -> Floats:
    """The sinusoidal positions, length × width: sin and cos of t / 10000^(2i/d) in turns."""
    frequencies = 10_000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)
