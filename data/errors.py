"""What can be wrong with data, in one line."""

from collections.abc import Iterable
from difflib import get_close_matches


class DataError(Exception):
    """Says what is wrong, where (data set, split, row), and what to do next."""


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or the valid names when they are few."""
    known = sorted(names)
    close = get_close_matches(name, known, n=3, cutoff=0.55)
    if close:
        return "; did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "; there is: " + ", ".join(known) if 0 < len(known) <= 12 else ""
