"""Claims: none without evidence, none by luck more often than promised."""

import numpy as np
import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.statistics import samples
from lightning_bench.reports.statistics.ranking import rank


def ranked(request, runs):
    return rank(request, samples.collect(request, runs))


@pytest.fixture(scope="module")
def null_runs(make):
    """Runs to be refilled with other values: making records anew would take most of the time."""

    def fill(request, values):
        record = make.record(metrics={"accuracy": 0.5})
        return [
            make.run(entry, dataset, seed, None).model_copy(
                update={
                    "state": "done",
                    "record": record.model_copy(update={"metrics": {"accuracy": float(value)}}),
                }
            )
            for entry, per_dataset in zip(request.entries, values, strict=True)
            for dataset, per_seed in zip(request.metrics, per_dataset, strict=True)
            for seed, value in enumerate(per_seed)
        ]

    return fill


@pytest.mark.parametrize(
    ("entries", "datasets", "seeds", "shape"),
    [
        (2, 1, 6, "normal"),
        (3, 1, 7, "skewed"),
        (3, 2, 8, "counts"),
        (3, 1, 16, "normal"),
    ],
)
def test_at_most_5_in_100_studies_without_a_difference_claim_one(
    make, null_runs, entries, datasets, seeds, shape
):
    rng = np.random.default_rng(2026)
    request = make.request([f"e{i}" for i in range(entries)], [f"d{i}" for i in range(datasets)])
    size = (entries, datasets, seeds)
    draw = {
        "normal": lambda: rng.normal(0.9, 0.01, size),
        "skewed": lambda: 1 - rng.exponential(0.02, size),
        "counts": lambda: rng.binomial(360, 0.97, size) / 360,
    }[shape]
    false, possible = 0, 0
    for _ in range(1_000):
        seed_effect = rng.normal(0, 0.01, (1, datasets, seeds))
        found = ranked(request, null_runs(request, draw() + seed_effect))
        possible += found.possible
        false += any(pair.verdict != "undecided" for pair in found.comparisons)
    assert possible == 1_000
    assert 0 < false <= 50


@pytest.mark.slow
def test_a_whole_report_claims_no_more(make, null_runs):
    """From runs to words, bold cells and pairs: at most 5 in 100 reports say more than there is."""
    rng = np.random.default_rng(7)
    request = make.request(["a", "b", "c"], ["d1", "d2"])
    false = 0
    for _ in range(1_000):
        seed_effect = rng.normal(0, 0.01, (1, 2, 9))
        values = rng.binomial(360, 0.95, (3, 2, 9)) / 360 + seed_effect
        report = build(request, null_runs(request, values))
        table = report.tables[0]
        bold = [sum(row.cells[place].best for row in table.rows) for place in (0, 1)]
        said = [
            any("is better than" in finding for finding in report.findings),
            any(count < 3 for count in bold),
            any(pair.verdict != "undecided" for pair in report.comparisons),
        ]
        # Words and bold follow the pairs with a leader, the verdicts are of all pairs.
        assert said[0] == said[1] <= said[2]
        false += said[2]
    assert 0 < false <= 50


def test_a_clear_difference_is_found(make):
    found = ranked(*make.study(make.scores({"a": 0.90, "b": 0.95, "c": 0.95}, 9)))
    ranking = found.columns["digits"]
    assert ranking.beaten.keys() == {"a"}
    assert ranking.tied == {"b", "c"}
    assert {(pair.a, pair.b): pair.verdict for pair in found.comparisons} == {
        ("a", "b"): "worse",
        ("a", "c"): "worse",
        ("b", "c"): "undecided",
    }


def test_with_five_seeds_nothing_is_claimed_however_large_the_difference(make):
    found = ranked(*make.study({"a": [0.1, 0.11, 0.12, 0.13, 0.14], "b": [0.9] * 5}))
    assert not found.possible
    assert found.comparisons[0].p == 2 / 32
    assert found.comparisons[0].verdict == "undecided"
    assert found.needed == 6


def test_lower_is_better_where_the_metric_says_so(make):
    request, runs = make.study(make.scores({"a": 0.9, "b": 0.8}, 8))
    request = request.model_copy(update={"higher_is_better": {"accuracy": False}})
    found = ranked(request, runs)
    assert found.columns["digits"].leader == "b"
    assert found.comparisons[0].difference > 0
    assert found.comparisons[0].verdict == "worse"


def test_pairs_are_those_of_the_same_seed(make):
    # The seeds move both alike: unpaired the spread hides the difference, paired it is plain.
    common = np.linspace(0.5, 0.9, 8)
    request, runs = make.study({"a": common.tolist(), "b": (common + 0.01).tolist()})
    assert ranked(request, runs).comparisons[0].verdict == "worse"
    moved = [
        run.model_copy(update={"seed": (run.seed + 3) % 8}) if run.entry == "b" else run
        for run in runs
    ]
    assert ranked(request, moved).comparisons[0].verdict == "undecided"


def test_only_common_seeds_are_compared(make):
    request, runs = make.study(make.scores({"a": 0.9, "b": 0.8, "c": 0.85}, 12))
    kept = [run for run in runs if run.entry != "b" or run.seed < 9]
    found = ranked(request, kept)
    assert {pair.n for pair in found.comparisons if "b" in (pair.a, pair.b)} == {9}
    few = [run for run in runs if run.entry != "b" or run.seed < 4]
    assert ranked(request, few).columns["digits"].unranked == {"b": "too few seeds for a claim"}


def test_an_entry_with_seeds_of_its_own_is_not_ranked(make):
    request, runs = make.study(make.scores({"a": 0.9, "b": 0.8}, 16))
    apart = [run for run in runs if (run.entry == "a") == (run.seed < 9) or run.seed in (7, 8)]
    found = ranked(request, apart).columns["digits"]
    assert found.leader == "a"
    assert found.unranked == {"b": "too few seeds in common with a"}
    assert found.tied == {"a"}


def test_an_entry_that_fails_is_not_ranked_though_its_other_runs_are_best(make):
    request, runs = make.study(make.scores({"a": 0.9, "b": 0.99, "c": 0.8}, 10))
    runs[13] = runs[13].model_copy(update={"state": "failed", "record": None})
    assert runs[13].entry == "b"
    found = ranked(request, runs).columns["digits"]
    assert found.leader == "a"
    assert found.unranked == {"b": "not every run gave a result"}


def test_one_family_over_all_data_sets(make, null_runs):
    request = make.request(["a", "b", "c"], ["d1", "d2", "d3"])
    values = np.random.default_rng(0).normal(0.9, 0.01, (3, 3, 10))
    assert ranked(request, null_runs(request, values)).pairs == 9
