"""Words of error messages: the nearest valid name, and the first line of an exception."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: object, names: Iterable[str], *, most: int = 3) -> str:
    """Return `; did you mean 'x'?`, or the valid names when they are few and none is near."""
    known = sorted(names)
    lowered = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(str(name).lower(), lowered, n=most, cutoff=0.55)
    if close:
        return "; did you mean " + " or ".join(repr(lowered[match]) for match in close) + "?"
    if 0 < len(known) <= 12:
        return "; valid: " + ", ".join(known)
    return ""


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its class where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
