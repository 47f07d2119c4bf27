"""How often the tiers beside the claims are wrong, and intervals across data sets cover.

    python -m benchmarks.tiers                  # about 20 minutes of a core
    python -m benchmarks.tiers --studies 200    # a look
    python -m benchmarks.tiers --only welch     # or equal, examples, across

Studies are made up and go through the pipeline of reports, as in `benchmarks.claims`; each rate has
its 95 % Clopper–Pearson interval. Welch: a pair of equal entries is told apart, with 2 to 5 seeds
(2 is below what reports take). Equal: two entries that differ by the margin or more are called
equal. Examples: two entries equal in the population, but different on single examples, are called
better on these test examples, and on new ones. Across: 95 % intervals that hold the truth.
"""

import argparse
from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from benchmarks.claims import OTHERS, SYMMETRIC, Floats, Pipeline, Shape, interval
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.statistics import per_example, samples
from lightning_bench.reports.statistics.data_sets import improvement, normalised
from lightning_bench.reports.statistics.ranking import rank
from lightning_bench.reports.statistics.tiers import welch
from lightning_bench.reports.statistics.tiers.equivalence import equivalence
from lightning_bench.reports.statistics.tiers.new_examples import new_examples

COARSE = {"counts of 50": lambda rng, shape: rng.binomial(50, 0.98, size=shape) / 1.0}


class Tiered(Pipeline):
    """Ranks made-up studies, and asks the tiers."""

    def runs(self, values: Floats) -> list[ReportedRun]:
        """The study's runs, all done, with these results."""
        return [
            ReportedRun(
                entry=label, dataset=title, seed=seed, key=f"{label}-{title}-{seed}", state="done",
                record=self._with(float(values[i, j, seed])),
            )
            for i, label in enumerate(self.labels)
            for j, title in enumerate(self.titles)
            for seed in range(values.shape[2])
        ]  # fmt: skip

    def indicated(self, values: Floats) -> bool:
        """Whether Welch's t tells any two apart."""
        collected = samples.collect(self.request, self.runs(values))
        found = welch.indications(self.request, collected, rank(self.request, collected))
        return any(bool((one.p <= 0.05).any()) for one in found.tested.values())

    def equal(self, values: Floats, margin: float) -> list[tuple[str, str, str]]:
        """The pairs that are called equal within the margin."""
        study = self.request.study.model_copy(update={"margin": 100 * margin})
        request = self.request.model_copy(update={"study": study})
        collected = samples.collect(request, self.runs(values))
        return equivalence(request, rank(request, collected)).equal

    def on_examples(self, right: Floats) -> tuple[bool, bool]:
        """Of entries × data sets × seeds × examples: any claim here, and any on new examples."""
        runs = self.runs(right.mean(axis=-1))
        target = np.ones(right.shape[-1], dtype=np.int8)
        index = np.arange(len(target))
        flat = right.reshape(-1, len(target)).astype(np.int8)
        predictions = {
            run.record.key: {"index": index, "predicted": one, "target": target}
            for run, one in zip(runs, flat, strict=True)
            if run.record
        }
        collected = samples.collect(self.request, runs)
        rankings = rank(self.request, collected)
        compared = per_example.compare(self.request, collected, predictions)
        told = new_examples(rankings, compared).annotated(rankings.comparisons)
        return any(p.verdict != "undecided" for p in told), any(p.on_new_examples for p in told)

    def _with(self, accuracy: float):  # type: ignore[no-untyped-def]
        """A record with a key of its own, by which its predictions are found."""
        self.made = getattr(self, "made", 0) + 1
        update = {"metrics": {"accuracy": accuracy}, "key": f"{self.made:016}"}
        return self._record.model_copy(update=update)


def told(what: str, wrong: int, studies: int) -> None:
    """A line a cell."""
    low, high = interval(wrong, studies)
    print(
        f"  {what:58} {100 * wrong / studies:5.1f} ({100 * low:.1f} to {100 * high:.1f})",
        flush=True,
    )


def print_welch(studies: int) -> None:
    """False indications of entries of equal mean."""
    print(f"Welch's t with Holm, false 'above', % of {studies:,} studies (95 %)")
    for seeds in (2, 3, 4, 5):
        for entries in (2, 5, 9):
            for noise, draw in (SYMMETRIC | COARSE | OTHERS).items():
                shape: Shape = (entries, 1, seeds)
                rng = np.random.default_rng([*shape, len(noise)])
                pipeline = Tiered(shape)
                with patch.object(welch, "LEAST_SEEDS", 2):
                    wrong = sum(pipeline.indicated(draw(rng, shape)) for _ in range(studies))
                told(f"{entries} entries, {seeds} seeds, {noise}", wrong, studies)


#: Where entries stand, in margins: at its edge in one direction, in both, and beside equal ones.
EDGES = {
    "two at the edge": (0.0, 1.0),
    "half at the edge": (0.0, 0.0, 1.0, 1.0),
    "both ways": (-1.0, 0.0, 1.0),
    "one of five, equal ones beside": (0.0, 0.0, 0.0, 0.0, 1.0),
}


def print_equal(studies: int) -> None:
    """False equality at the margin's edge, and power where entries are equal."""
    print(f"False 'equal' at the margin's edge, % of {studies:,} studies (95 %)")
    noises: dict[str, Callable[[np.random.Generator, Shape], Floats]] = {
        name: SYMMETRIC[name] for name in ("normal", "heavy-tailed (t, 2 df)", "SDs 1 to 10")
    }
    for what, places in EDGES.items():
        for seeds in (6, 8, 12):
            for noise, draw in noises.items():
                shape = (len(places), 1, seeds)
                rng = np.random.default_rng([*shape, len(noise)])
                pipeline, margin, wrong = Tiered(shape), 2.0, 0
                offsets = margin * np.array(places)
                for _ in range(studies):
                    values = draw(rng, shape) + offsets[:, None, None]
                    found = pipeline.equal(values, margin)
                    wrong += any(
                        abs(offsets[int(a[1:])] - offsets[int(b[1:])]) >= margin
                        for _, a, b in found
                    )
                told(f"{what}, {seeds} seeds, {noise}", wrong, studies)
    print("Power: equal entries called equal, % of their pairs, margin of so many SDs")
    for entries, seeds, margin in [(2, 6, 2), (5, 6, 2), (5, 8, 2), (5, 10, 2), (5, 20, 1)]:
        rng = np.random.default_rng([entries, seeds])
        pipeline = Tiered((entries, 1, seeds))
        found = [
            len(pipeline.equal(rng.normal(size=(entries, 1, seeds)), margin))
            for _ in range(studies // 4)
        ]
        share = 100 * np.mean(found) / (entries * (entries - 1) / 2)
        print(f"  {entries} entries, {seeds} seeds, {margin} SD: {share:.0f}", flush=True)


def print_examples(studies: int) -> None:
    """Entries equal in the population, different on single examples."""
    print(f"Equal in the population: false 'better' on these / on new examples, % of {studies:,}")
    for entries, examples, own, seeds in [
        (2, 360, 0.6, 6), (2, 360, 0.6, 20), (2, 872, 0.6, 10), (2, 1821, 0.6, 6),
        (2, 1821, 0.6, 20), (5, 360, 0.6, 6), (5, 360, 0.6, 20), (5, 360, 0.2, 6),
    ]:  # fmt: skip
        rng = np.random.default_rng([entries, examples, seeds])
        pipeline, here, anew = Tiered((entries, 1, seeds)), 0, 0
        for _ in range(studies):
            ease = rng.normal(1.3, 1.0, examples)
            taste = own * rng.normal(size=(entries, 1, 1, examples))
            noise = 0.5 * rng.normal(size=(entries, 1, seeds, examples))
            found = pipeline.on_examples((ease + taste + noise > 0).astype(float))
            here, anew = here + found[0], anew + found[1]
        what = f"{entries} entries, {examples} examples, own taste {own}, {seeds} seeds"
        told(f"{what}: these", here, studies)
        told(f"{what}: new", anew, studies)


def print_across(studies: int) -> None:
    """Coverage of the intervals over several data sets."""
    print(f"95 % intervals across data sets that hold the truth, % of {studies:,}")
    print("  data sets × seeds: mean, middle half, P(better) of 1 SD; the same, exponential noise")
    for datasets in (2, 3, 5, 8):
        for seeds in (2, 3, 5, 10):
            print(f"  {datasets} × {seeds:2}:", *_covered(datasets, seeds, studies), flush=True)


def _covered(datasets: int, seeds: int, studies: int) -> list[str]:
    from scipy.stats import norm

    shown = []
    draws: list[Callable[[np.random.Generator, tuple[int, int]], Floats]] = [
        lambda rng, shape: rng.normal(size=shape),
        lambda rng, shape: 1 - rng.exponential(size=shape),
    ]
    for number, draw in enumerate(draws):
        rng = np.random.default_rng([datasets, seeds])
        places = np.linspace(0.2, 0.8, datasets)[:, None]
        many = draw(rng, (datasets, 50_000)) * 0.02 + places
        middle = normalised.interquartile_mean(many.reshape(1, -1))[0]
        better = norm.cdf(np.sqrt(0.5)) if number == 0 else 1 - np.exp(-1) / 2
        held, asked = np.zeros(3), np.zeros(3)
        for _ in range(studies):
            strata = list(draw(rng, (datasets, seeds)) * 0.02 + places)
            others = list(draw(rng, (datasets, seeds)) * 0.02 + places - 0.02)
            pooled = normalised.interquartile_mean(np.concatenate(strata)[None])[0]
            mean = float(np.mean([one.mean() for one in strata]))
            for place, (half, off) in enumerate(
                (
                    (normalised.mean_half_width(strata), mean - 0.5),
                    (normalised.iqm_half_width(strata), pooled - middle),
                )
            ):
                if half is not None:
                    held[place] += abs(off) <= half
                    asked[place] += 1
            found = improvement.improvement(strata, others)
            held[2] += found.low <= better <= found.high
            asked[2] += 1
        shown += [f"{100 * h / a:5.1f}" if a else " none" for h, a in zip(held, asked, strict=True)]
    return shown


PARTS = {
    "welch": print_welch,
    "equal": print_equal,
    "examples": print_examples,
    "across": print_across,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--studies", type=int, default=2_000)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(options.studies)
