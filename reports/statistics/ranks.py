"""Midranks of many samples at once, without the import of scipy.stats."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def midranks(values: Floats) -> Floats:
    """Ranks along the last axis, the smallest 1; equal values share the mean of theirs."""
    order = np.argsort(values, axis=-1, kind="stable")
    ranks = np.empty(values.shape)
    first, last = _tied(np.take_along_axis(values, order, axis=-1))
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    return ranks


def _tied(ordered: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where the group of equal values that each one belongs to begins and ends."""
    places = np.broadcast_to(np.arange(ordered.shape[-1]), ordered.shape)
    new = np.ones(ordered.shape, dtype=bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(new, places, 0), axis=-1)
    end = np.ones(ordered.shape, dtype=bool)
    end[..., :-1] = new[..., 1:]
    last = np.where(end, places, ordered.shape[-1])[..., ::-1]
    return first, np.minimum.accumulate(last, axis=-1)[..., ::-1]
