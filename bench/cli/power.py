"""The power of a plan: what difference it can show, and what a wanted difference would cost."""

import math
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lightning_bench.bench.cli.options import duration
from lightning_bench.bench.study.claims import named_pairs
from lightning_bench.bench.study.looks import alphas
from lightning_bench.common.messages import counted

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.study.study import Study
    from lightning_bench.reports.statistics.inference import Floats

_LEAST_SEEDS = 3  # that two entries have in common, to know how much their difference varies


@dataclass(frozen=True)
class _Place:
    """A data set, or the mean over all of them: what is compared there, and how much it varies."""

    name: str
    metric: str
    blocks_a_seed: int
    sd: float | None  # of the paired differences over blocks, in the metric's units
    source: str  # of the SD, in words
    runs_a_seed: int
    seed_s: float  # that all of a seed's runs there take

    @property
    def scale(self) -> int:
        """From the metric's units to those that are printed."""
        return 100 if _in_points(self.metric) else 1

    @property
    def unit(self) -> str:
        """After a number."""
        return "points" if _in_points(self.metric) else f"in {self.metric.replace('_', ' ')}"


def lines(plan: "Plan", jobs: int, detect: float | None = None) -> Iterator[str]:
    """What the plan can show with 80 % power, a line a data set; or what `detect` would take."""
    study = plan.study
    if not study.seeds or len(study.entries) < 2:
        return
    from lightning_bench.reports.statistics import inference

    number, alpha = len(study.seeds), inference.ALPHA
    if study.looks is not None:
        number, alpha = list(alphas(study).items())[-1]
    one_sided = bool(study.claims) and all(pair.directed for pair in named_pairs(study))
    few = number < inference.blocks_needed(alpha, one_sided=one_sided) and detect is None
    pairs = _pairs(study, few=few)
    if not pairs:
        return
    places = _places(plan, few=few)
    family = "1 comparison" if pairs == 1 else f"{pairs} comparisons"
    sides = ", one-sided" if one_sided else ""
    if detect is not None:
        yield (
            f"To show a true difference of {detect:g} (80 % power, {family} at once{sides}), one"
            " look at all seeds:"
        )
        for place in places:
            yield f"  {_cost(place, detect, pairs, jobs, one_sided=one_sided)}"
        return
    look = f", at the last look, which spends {alpha:.3g}" if study.looks else ""
    grows = study.looks is not None and study.looks.grow is not None
    if grows:
        look = ", in one test at the end; e-values, which may be looked at always, show less"
    seeds = counted(number, "seed")
    yield f"What {seeds} can show with 80 % power, {family} tested at once{sides}{look}:"
    for place in places:
        blocks = number * place.blocks_a_seed
        sds = inference.detectable_difference(blocks, pairs, alpha, one_sided=one_sided)
        if math.isinf(sds):
            needed = inference.blocks_needed(alpha, one_sided=one_sided)
            yield f"  {place.name}: nothing; a claim needs at least {needed} seeds"
        elif place.sd is None:
            yield (
                f"  {place.name}: {sds:.2g} SDs of the paired differences; how large these are is"
                f" not known before {_LEAST_SEEDS} seeds have run, or `spread:` guesses it"
            )
        else:
            yield (
                f"  {place.name}: {sds * place.sd * place.scale:.2g} {place.unit} (SD of the paired"
                f" differences {place.sd * place.scale:.2g}, {place.source})"
            )


def _cost(place: _Place, detect: float, pairs: int, jobs: int, *, one_sided: bool) -> str:
    from lightning_bench.reports.statistics import inference

    if place.sd is None:
        return (
            f"{place.name}: not known before {_LEAST_SEEDS} seeds have run, or `spread:` guesses"
            " how much an entry varies"
        )
    blocks = inference.seeds_to_show(detect / place.scale, place.sd, pairs, one_sided=one_sided)
    if blocks is None:
        return f"{place.name}: more than {inference.MOST_SEEDS:,} seeds"
    seeds = math.ceil(blocks / place.blocks_a_seed)
    return (
        f"{place.name}: {seeds} seeds ({seeds * place.runs_a_seed:,} runs, about"
        f" {duration(seeds * place.seed_s / jobs)} in all, {jobs} at a time; SD of the paired"
        f" differences {place.sd * place.scale:.2g} {place.unit}, {place.source})"
    )


def _pairs(study: "Study", *, few: bool) -> int:
    """How many comparisons the report will test at once; with few seeds those of the mean alone."""
    meets = {label: set(entry.data) for label, entry in study.resolved.items()}
    several = len(study.datasets) > 1 and len(_metrics(study)) == 1
    named = named_pairs(study)

    def among(labels: set[str], title: str | None) -> int:
        if not named:
            return math.comb(len(labels), 2)
        return sum(pair.stands_for(title) and {pair.a, pair.b} <= labels for pair in named)

    everywhere = {label for label, titles in meets.items() if len(titles) == len(study.datasets)}
    of_mean = among(everywhere, None) if several else 0
    if few and of_mean:
        return of_mean
    return of_mean + sum(
        among({label for label, titles in meets.items() if title in titles}, title)
        for title in study.datasets
    )


def _metrics(study: "Study") -> set[str]:
    return {dataset.reported[0] for dataset in study.datasets.values()}


def _places(plan: "Plan", *, few: bool) -> Iterator[_Place]:
    """The data sets, and their mean where it alone can be claimed."""
    study = plan.study
    cells = {
        (label, title): plan.trials[label, title].seconds if (label, title) in plan.trials else 0.0
        for label, entry in study.resolved.items()
        for title in entry.data
    }
    cells |= {(run.run.entry, run.run.dataset): run.expected_s for run in plan.runs}
    scores = _scores(plan)
    for title, dataset in study.datasets.items():
        metric = dataset.reported[0]
        here = [seconds for (_, name), seconds in cells.items() if name == title]
        sd, source = _from_runs(scores[title]) if title in scores else (None, "")
        if sd is None:
            sd, source = _guessed(study.spread, title, metric)
        yield _Place(title, metric, 1, sd, source, len(here), sum(here))
    if few and len(study.datasets) > 1 and len(_metrics(study)) == 1:
        rows = [scores.get(title) for title in study.datasets]
        sd, source = None, ""
        if all(row is not None for row in rows):
            import numpy as np

            sd, source = _from_runs(
                np.concatenate([row for row in rows if row is not None], axis=1)
            )
        yield _Place(
            f"mean of {len(study.datasets)} data sets", _metrics(study).pop(),
            len(study.datasets), sd, source, len(cells), sum(cells.values()),
        )  # fmt: skip


def _scores(plan: "Plan") -> "dict[str, Floats]":
    """What finished runs scored, entries × seeds by data set; NaN where there is none."""
    import numpy as np

    primary = {title: dataset.reported[0] for title, dataset in plan.study.datasets.items()}
    rows = {label: place for place, label in enumerate(plan.study.entries)}
    found: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    for planned in plan.runs:
        run, record = planned.run, planned.record
        if planned.state == "done" and record and record.status == "done":
            value = record.metrics.get(primary[run.dataset], math.nan)
            found[run.dataset][rows[run.entry], run.spec.seed] = value
    scores = {}
    for title, values in found.items():
        columns = {seed: place for place, seed in enumerate(sorted({s for _, s in values}))}
        scores[title] = np.full((len(rows), len(columns)), np.nan)
        for (row, seed), value in values.items():
            scores[title][row, columns[seed]] = value
    return scores


def _from_runs(scores: "Floats") -> tuple[float | None, str]:
    """The median SD of paired differences, over the pairs with seeds enough."""
    import numpy as np

    a, b = np.triu_indices(len(scores), 1)
    differences = scores[a] - scores[b]
    common = np.count_nonzero(~np.isnan(differences), axis=1)
    known = differences[common >= _LEAST_SEEDS]
    if not len(known):
        return None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        sd = float(np.median(np.nanstd(known, axis=1, ddof=1)))
    return (sd or None), f"from {int(common.max())} seeds in the store"


def _guessed(
    spread: float | Mapping[str, float], title: str, metric: str
) -> tuple[float | None, str]:
    """From the page's guess of an entry's SD: of a difference, if nothing is paired."""
    guess = spread.get(title) if isinstance(spread, Mapping) else spread
    if guess is None:
        return None, ""
    scale = 100 if _in_points(metric) else 1
    return math.sqrt(2) * guess / scale, f"guessed: √2 × the page's spread of {guess:g}"


def _in_points(metric: str) -> bool:
    """Whether reports print it in per cent."""
    from lightning_bench.reports.request import PERCENT

    return metric in PERCENT
