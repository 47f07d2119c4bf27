"""The power of a plan: what difference it can show, and what a wanted difference would cost."""

import math
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightning_bench.bench.study.claims import named_pairs
from lightning_bench.bench.study.looks import alphas
from lightning_bench.common.messages import counted, duration

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


@dataclass(frozen=True)
class _Family:
    """What is tested together, when, and how much each look may spend."""

    pairs: int
    one_sided: bool
    looks: tuple[tuple[int, float], ...]  # seeds and alpha
    e_values: bool

    @classmethod
    def of(cls, study: "Study", *, detect: bool) -> "tuple[_Family, bool] | None":
        """A study's family, and whether its mean over data sets alone can be claimed."""
        from lightning_bench.reports.statistics import inference

        if not study.seeds or len(study.entries) < 2:
            return None
        grow = study.looks.grow if study.looks is not None else None
        looks = tuple(alphas(study).items())
        number, alpha = (grow, inference.ALPHA) if grow else looks[-1]
        one_sided = bool(study.claims) and all(pair.directed for pair in named_pairs(study))
        few = number < inference.blocks_needed(alpha, one_sided=one_sided) and not detect
        pairs = _pairs(study, few=few)
        return (cls(pairs, one_sided, looks, bool(grow)), few) if pairs else None

    @property
    def seeds(self) -> int:
        """At the last look."""
        return self.looks[-1][0]

    def shown_at(self, blocks_a_seed: int) -> "_Shown":
        """What the looks show with 80 % power at so many blocks a seed."""
        from lightning_bench.reports.statistics import inference, power

        looks = tuple((seeds * blocks_a_seed, alpha) for seeds, alpha in self.looks)
        blocks, alpha = looks[-1]
        found = None
        if self.e_values:
            stops = tuple(stop for stop, _ in looks)
            found = power.by_e_values(stops, self.pairs, one_sided=self.one_sided)
        elif len(looks) > 1:
            found = power.by_looks(looks, self.pairs, one_sided=self.one_sided)
        if found:
            return _Shown(found.sds, found.blocks / blocks_a_seed)
        sds = inference.detectable_difference(blocks, self.pairs, alpha, one_sided=self.one_sided)
        return _Shown(sds, None, last_alone=len(looks) > 1)


@dataclass(frozen=True)
class _Shown:
    """A difference in SDs of the paired differences, infinite where nothing can be shown."""

    sds: float
    mean_seeds: float | None = None  # until a look shows it, on average
    last_alone: bool = False  # of several looks the last one's; with e-values one test at the end


def lines(plan: "Plan", jobs: int, detect: float | None = None) -> Iterator[str]:
    """What the plan can show with 80 % power, a line a data set; or what `detect` would take."""
    found = _Family.of(plan.study, detect=detect is not None)
    if found is None:
        return
    family, few = found
    places = list(_places(plan, few=few))
    together = f"{counted(family.pairs, 'comparison')} at once"
    sides = ", one-sided" if family.one_sided else ""
    if detect is not None:
        yield (
            f"To show a true difference of {detect:g} (80 % power, {together}{sides}), one look at"
            " all seeds:"
        )
        for place in places:
            yield f"  {place.name}: {_cost_in_words(place, _cost(place, detect, family), jobs)}"
        return
    shown = [family.shown_at(place.blocks_a_seed) for place in places]
    seeds = counted(family.seeds, "seed")
    tested = together.replace(" at once", " tested at once")
    yield f"What {seeds} can show with 80 % power, {tested}{sides}{_when(family, shown)}:"
    for place, its in zip(places, shown, strict=True):
        yield f"  {place.name}: {_shown_in_words(place, its, family)}"


def facts(plan: "Plan", jobs: int, detect: float | None = None) -> dict[str, dict[str, Any]]:
    """The same as data, by data set; and of their mean, where it alone can be claimed."""
    found = _Family.of(plan.study, detect=detect is not None)
    if found is None:
        return {}
    family, few = found
    told: dict[str, dict[str, Any]] = {}
    for place in _places(plan, few=few):
        told[place.name] = {
            "metric": place.metric,
            "unit": "points" if _in_points(place.metric) else place.metric,
            "comparisons": family.pairs,
            "one_sided": family.one_sided,
            "power": 0.8,
            "sd": None if place.sd is None else place.sd * place.scale,
            "sd_from": place.source or None,
            **(
                _shown_as_data(place, family)
                if detect is None
                else _cost_as_data(place, family, detect, jobs)
            ),
        }
    return told


def _when(family: _Family, shown: "list[_Shown]") -> str:
    """At which looks, in words."""
    if len(family.looks) == 1:
        return ""
    last_alone = any(its.last_alone for its in shown)
    if family.e_values:
        if last_alone:
            return ", in one test at the end; e-values, which may be looked at always, show less"
        return ", by e-values at any number of seeds"
    if last_alone:
        return f", at the last look, which spends {family.looks[-1][1]:.3g}"
    numbers = [str(seeds) for seeds, _ in family.looks]
    return f", at one of the looks at {', '.join(numbers[:-1])} and {numbers[-1]} seeds"


def _shown_in_words(place: _Place, its: "_Shown", family: _Family) -> str:
    from lightning_bench.reports.statistics import inference

    if math.isinf(its.sds):
        needed = inference.blocks_needed(family.looks[-1][1], one_sided=family.one_sided)
        return f"nothing; a claim needs at least {needed} seeds"
    after = f", after {its.mean_seeds:.1f} seeds on average" if its.mean_seeds else ""
    if place.sd is None:
        return (
            f"{its.sds:.2g} SDs of the paired differences{after}; how large these are is not known"
            f" before {_LEAST_SEEDS} seeds have run, or `spread:` guesses it"
        )
    return (
        f"{its.sds * place.sd * place.scale:.2g} {place.unit}{after} (SD of the paired differences"
        f" {place.sd * place.scale:.2g}, {place.source})"
    )


def _shown_as_data(place: _Place, family: _Family) -> dict[str, Any]:
    its = family.shown_at(place.blocks_a_seed)
    sds = its.sds if math.isfinite(its.sds) else None
    shows = None if sds is None or place.sd is None else sds * place.sd * place.scale
    return {
        "seeds": family.seeds,
        "shows_sds": sds,
        "shows": shows,
        "mean_seeds": its.mean_seeds,
        "last_look_alone": its.last_alone,
    }


def _cost(place: _Place, detect: float, family: _Family) -> int | None:
    """How many seeds show such a difference; None where nobody knows, or too many."""
    from lightning_bench.reports.statistics import inference

    if place.sd is None:
        return None
    blocks = inference.seeds_to_show(
        detect / place.scale, place.sd, family.pairs, one_sided=family.one_sided
    )
    return None if blocks is None else math.ceil(blocks / place.blocks_a_seed)


def _cost_as_data(place: _Place, family: _Family, detect: float, jobs: int) -> dict[str, Any]:
    seeds = _cost(place, detect, family)
    return {
        "detect": detect,
        "seeds": seeds,
        "runs": None if seeds is None else seeds * place.runs_a_seed,
        "expected_s": None if seeds is None else seeds * place.seed_s / jobs,
    }


def _cost_in_words(place: _Place, seeds: int | None, jobs: int) -> str:
    from lightning_bench.reports.statistics import inference

    if place.sd is None:
        return (
            f"not known before {_LEAST_SEEDS} seeds have run, or `spread:` guesses how much an"
            " entry varies"
        )
    if seeds is None:
        return f"more than {inference.MOST_SEEDS:,} seeds"
    return (
        f"{seeds} seeds ({seeds * place.runs_a_seed:,} runs, about"
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


def name_of_mean(study: "Study") -> str:
    """What the mean over the data sets is called, as in reports."""
    return f"mean of {len(study.datasets)} data sets"


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
            name_of_mean(study), _metrics(study).pop(),
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
