"""Mistakes that the user can mend, and how to say them in one line."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Printed as one line that says what, where and what to do next; exit code 2."""


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
