"""Words of messages: the nearest valid name, an exception's first line, numbers and nouns."""

import re
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


def counted(number: int, what: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as ranges: `0–4, 7` for 0, 1, 2, 3, 4, 7."""
    bounds: list[list[int]] = []
    for number in sorted(set(numbers)):
        if bounds and bounds[-1][-1] == number - 1:
            bounds[-1][1:] = [number]
        else:
            bounds.append([number])
    return ", ".join("–".join(map(str, span)) for span in bounds)


def duration(seconds: float) -> str:
    """A length of time in the two units that matter, as in `3 min 20 s`."""
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    if rounded < 48 * 3600:
        return f"{rounded // 3600} h {rounded % 3600 // 60} min"
    return f"{rounded // 86400} days {rounded % 86400 // 3600} h"


_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>s|m|min|h|d)")


def seconds(text: str) -> float:
    """The seconds of a length of time, as in `90s`, `15m`, `2.5h`; else a ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not float(match["number"]):
        raise ValueError(f"{text!r} is no length of time, as 90s, 15m or 2.5h are")
    return float(match["number"]) * _UNITS[match["unit"]]


#: What a terminal obeys, and what turns the direction of text; not the tab, nor the line's end.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with its control characters written out, as in `\\x1b`."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
