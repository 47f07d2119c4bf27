"""Sources of variance: the SD over seeds where one source varies alone, and where all do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightning_bench.bench.study.randomness import TITLES
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.samples import Samples

ALL = "all at once"


@dataclass(frozen=True)
class SourceSpread:
    """An SD over n runs with its 95 % chi-square interval, which an SD of nothing has not."""

    n: int
    sd: float
    low: float | None = None
    high: float | None = None


#: By data set and entry: each source that was varied alone, then all at once.
Spreads = Mapping[str, Mapping[str, Mapping[str, SourceSpread]]]


def spread(values: Sequence[float]) -> SourceSpread | None:
    """The SD of normal values: (n − 1) s² / σ² is chi-square with n − 1 degrees of freedom."""
    found = inference.summarise(values) if len(values) > 1 else None
    if found is None or found.sd is None:
        return None
    if found.sd == 0:
        return SourceSpread(found.n, 0.0)
    df = found.n - 1
    low, high = (
        found.sd * math.sqrt(df / chi_square_quantile(p, df))
        for p in (1 - inference.ALPHA / 2, inference.ALPHA / 2)
    )
    return SourceSpread(found.n, found.sd, low, high)


def chi_square_quantile(probability: float, df: int) -> float:
    """Quantile of the chi-square distribution."""
    from scipy.special import gammaincinv

    return 2 * float(gammaincinv(df / 2, probability))


def spreads(request: Request, samples: Samples, runs: Sequence[ReportedRun]) -> Spreads:
    """Of each data set's first metric, for the entries of which a source was varied alone."""
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in sorted(runs, key=lambda run: (run.seed, run.key)):
        if run.varied and run.state == "done" and run.record:
            value = run.record.metrics.get(request.metrics[run.dataset][0], math.nan)
            if math.isfinite(value):
                place = values.setdefault((run.dataset, run.entry), {})
                place.setdefault(run.varied, []).append(value)
    found: dict[str, dict[str, dict[str, SourceSpread]]] = {}
    for dataset, (metric, *_) in request.metrics.items():
        for entry in request.grouped_entries():
            alone = values.get((dataset, entry), {})
            every = {TITLES[source]: alone[source] for source in TITLES if source in alone}
            if every:
                every[ALL] = list(samples[entry, dataset].values(metric).values())
                known = {title: s for title, x in every.items() if (s := spread(x))}
                found.setdefault(dataset, {})[entry] = known
    return found


def together(parts: Mapping[str, SourceSpread]) -> float | None:
    """The SD that all sources would have at once, were they to add up: √Σ SD²."""
    alone = [part.sd for title, part in parts.items() if title != ALL]
    return math.sqrt(math.fsum(sd * sd for sd in alone)) if alone else None


def pooled(of_entries: Mapping[str, Mapping[str, SourceSpread]], title: str) -> float | None:
    """The root mean square over those entries of which the source was varied."""
    squares = [parts[title].sd ** 2 for parts in of_entries.values() if title in parts]
    return math.sqrt(math.fsum(squares) / len(squares)) if squares else None
