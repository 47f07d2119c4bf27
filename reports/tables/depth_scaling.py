"""How a result grows with depth or size: which entries are one family, and where each stands.

A line joins entries of one model family that differ in depth (or in size) and in nothing else.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from lightning_bench.reports.report import Entry

DEPTH = frozenset({"depth", "layers"})
SIZE = DEPTH | {"width", "hidden", "heads", "token_width", "channel_width", "patch"}
# Two depths are a comparison; two sizes are what the scatter shows already.
LEAST_DEPTHS, LEAST_SIZES = 2, 3

Lines = dict[str, dict[str, float]]


def by_depth(entries: Iterable[Entry]) -> Lines:
    """Each family's entries with their depths, where there are several."""
    known = [entry for entry in entries if entry.depth]
    return _lines(known, {e.label: e.depth or 0 for e in known}, DEPTH, LEAST_DEPTHS)


def by_size(entries: Iterable[Entry], parameters: Mapping[str, float]) -> Lines:
    """Each family's entries with their parameter counts, where there are several."""
    known = [entry for entry in entries if entry.label in parameters]
    return _lines(known, parameters, SIZE, LEAST_SIZES)


def _lines(
    entries: Iterable[Entry], x: Mapping[str, float], free: frozenset[str], least: int
) -> Lines:
    found: Lines = defaultdict(dict)
    for entry in entries:
        fixed = [f"{name}={value}" for name, value in entry.args.items() if name not in free]
        found[" ".join([entry.family or entry.model, *fixed])][entry.label] = x[entry.label]
    return {
        family: dict(sorted(points.items(), key=lambda point: point[1]))
        for family, points in found.items()
        if len(set(points.values())) == len(points) >= least
    }
