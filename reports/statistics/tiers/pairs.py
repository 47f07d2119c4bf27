"""Pairs of entries on a data set, or on the mean over several, as keys."""

from collections.abc import Mapping

#: Data set (or the mean's title), and two entries in the page's order.
Pair = tuple[str, str, str]


def either_way(found: Mapping[Pair, float], dataset: str, a: str, b: str) -> float | None:
    """The value of a pair whose order is not known."""
    return found.get((dataset, a, b), found.get((dataset, b, a)))
