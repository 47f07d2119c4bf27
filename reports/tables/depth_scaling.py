"""How a result grows with depth or size: which entries are one family, and where each stands.

A line joins entries of one model family that differ in depth (or in size) and in nothing else.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from lightning_bench.reports.request import Request

DEPTH = frozenset({"depth", "layers"})
SIZE = DEPTH | {"width", "hidden", "heads", "token_width", "channel_width", "patch"}
# Two depths are a comparison; two sizes are what the scatter shows already.
LEAST_DEPTHS, LEAST_SIZES = 2, 3

Lines = dict[str, dict[str, float]]


def by_depth(request: Request, labels: Iterable[str]) -> Lines:
    """Each family's entries with their depths, where there are several."""
    depths = {label: depth for label in labels if (depth := request.facts_of(label).depth)}
    return _lines(request, depths, DEPTH, LEAST_DEPTHS)


def by_size(request: Request, labels: Iterable[str], parameters: Mapping[str, float]) -> Lines:
    """Each family's entries with their parameter counts, where there are several."""
    sizes = {label: parameters[label] for label in labels if label in parameters}
    return _lines(request, sizes, SIZE, LEAST_SIZES)


def _lines(request: Request, x: Mapping[str, float], free: frozenset[str], least: int) -> Lines:
    """Entries by what they have in common, each at its x; those of `free` arguments may differ."""
    lines: Lines = defaultdict(dict)
    for label, place in x.items():
        entry = request.entries[label]
        family = request.facts_of(label).family or entry.model
        fixed = [f"{name}={value}" for name, value in entry.args.items() if name not in free]
        lines[" ".join([family, *fixed])][label] = place
    return {
        family: dict(sorted(points.items(), key=lambda point: point[1]))
        for family, points in lines.items()
        if len(set(points.values())) == len(points) >= least
    }
