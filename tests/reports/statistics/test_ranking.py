"""Claims: none without evidence, none by luck more often than promised."""

import numpy as np
import pytest

from lightning_bench.bench.spec import Recipe
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
            any("On d" in finding and "is better than" in finding for finding in report.findings),
            any(count < 3 for count in bold),
            any(pair.verdict != "undecided" for pair in report.comparisons),
        ]
        # Words and bold follow the pairs with a leader, the verdicts are of all pairs, and of the
        # mean over the data sets.
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
    assert found.comparisons[0].low_of_all is None


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


def test_one_family_over_all_data_sets_and_their_mean(make, null_runs):
    request = make.request(["a", "b", "c"], ["d1", "d2", "d3"])
    values = np.random.default_rng(0).normal(0.9, 0.01, (3, 3, 10))
    found = ranked(request, null_runs(request, values))
    assert found.pairs == len(found.comparisons) == 12
    assert {pair.dataset for pair in found.comparisons} == {"d1", "d2", "d3", "mean of 3 data sets"}
    alone = ranked(*make.study({"a": values[0, 0].tolist(), "b": values[1, 0].tolist()}))
    assert alone.comparisons[0].p == alone.comparisons[0].p_adjusted
    assert found.comparisons[0].p == alone.comparisons[0].p < found.comparisons[0].p_adjusted


def test_six_seeds_can_claim_all_pairs_of_ten_entries(make):
    means = {f"e{i}": 0.5 + 0.04 * i for i in range(10)}
    for seeds in (6, 12, 13, 16):
        found = ranked(*make.study(make.scores(means, seeds, sd=0.001)))
        assert all(pair.verdict == "worse" for pair in found.comparisons), seeds


def test_nobody_leads_against_the_seeds_in_common(make):
    # b is a little better than a wherever both have a run; a has lucky seeds of its own.
    shared = np.linspace(0.88, 0.92, 10)
    request, runs = make.study({"a": [*shared, *[0.99] * 10], "b": [*(shared + 0.01), *[0.9] * 10]})
    kept = [run for run in runs if run.entry == "a" or run.seed < 10]
    found = ranked(request, kept)
    assert found.columns["digits"].leader == "b"
    assert found.columns["digits"].beaten.keys() == {"a"}
    assert found.columns["digits"].blocks == 10
    assert found.comparisons[0].verdict == "worse"


def test_a_leader_is_never_better_than_who_beats_it_on_their_seeds(make):
    # No seed is common to all three, so a leads by its own mean; on 10 to 19 b is better than it.
    request, runs = make.study({"a": [0.99] * 10 + [0.90] * 10, "b": [0.91] * 20, "c": [0.5] * 20})
    kept = [
        run for run in runs
        if run.entry == "a" or (run.entry == "b") == (run.seed >= 10)
    ]  # fmt: skip
    ranking = ranked(request, kept).columns["digits"]
    assert ranking.leader == "a"
    assert ranking.beaten.keys() == {"c"}


@pytest.mark.parametrize("state", ["missing", "stale", "running"])
def test_nothing_is_claimed_while_a_run_is_to_come(make, state):
    request, runs = make.study(make.scores({"a": 0.90, "b": 0.95, "c": 0.8}, 9))
    assert ranked(request, runs).columns["digits"].leader == "b"
    runs[-1] = runs[-1].model_copy(update={"state": state})
    found = ranked(request, runs)
    assert not found.possible
    assert {pair.verdict for pair in found.comparisons} == {"undecided"}
    report = build(request, runs)
    assert "before every planned run has ended" in report.findings[0]
    assert not any("better than" in finding for finding in report.findings)
    assert not any(row.cells[0].best for row in report.tables[0].rows)


def test_three_seeds_on_two_data_sets_can_claim_their_mean(make, null_runs):
    request = make.request(["a", "b"], ["d1", "d2"])
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(mean, 0.002, (2, 3)) for mean in (0.90, 0.93)])
    found = ranked(request, null_runs(request, values))
    assert not found.possible
    assert found.pairs == 1
    assert found.mean.leader == "b"
    assert found.mean.beaten == {"a": 2 / 64}
    (pair,) = (pair for pair in found.comparisons if pair.dataset == "mean of 2 data sets")
    assert (pair.n, pair.blocks, pair.verdict) == (3, 6, "worse")
    assert pair.difference == pytest.approx((values[0] - values[1]).mean())
    of_mean, why_not, _ = build(request, null_runs(request, values)).findings
    assert "On the mean of 2 data sets (accuracy) b is better than a" in of_mean
    assert "6 blocks (3 seeds on each data set)" in of_mean
    assert "with 3 paired seeds" in why_not


def test_a_mean_of_data_sets_with_different_metrics_is_none(make, null_runs):
    request = make.request(
        ["a", "b"], ["d1", "d2"], metrics={"d1": ["accuracy"], "d2": ["matthews"]}
    )
    values = np.random.default_rng(0).normal(0.9, 0.01, (2, 2, 8))
    assert ranked(request, null_runs(request, values)).mean is None


def test_intervals_of_all_pairs_agree_with_the_verdicts(make):
    found = ranked(*make.study(make.scores({"a": 0.90, "b": 0.905, "c": 0.95, "d": 0.951}, 8)))
    verdicts = {pair.verdict for pair in found.comparisons}
    assert verdicts == {"worse", "undecided"}
    for pair in found.comparisons:
        holds_zero = pair.low_of_all < 0 < pair.high_of_all
        assert holds_zero == (pair.verdict == "undecided")
        assert pair.high_of_all - pair.low_of_all > pair.high - pair.low or not holds_zero


def untrained(make, entry, accuracies, predictions):
    """Runs of weights that are only scored, with what their predictions' files hold."""
    runs = []
    for seed, value in enumerate(accuracies):
        run = make.run(entry, "digits", seed, value)
        spec = run.record.spec.model_copy(update={"recipe": Recipe(epochs=0)})
        changes = {"spec": spec, "predictions": predictions[seed], "scored": 500}
        runs.append(run.model_copy(update={"record": run.record.model_copy(update=changes)}))
    return runs


def test_seeds_that_draw_nothing_are_one_run(make):
    same = ["a" * 64] * 6
    runs = [
        *untrained(make, "a", [0.664] * 6, same),
        *untrained(make, "b", [0.662] * 6, ["b" * 64] * 6),
    ]
    report = build(make.request(["a", "b"]), runs)
    assert report.comparisons == []
    assert not any("better than" in finding for finding in report.findings)
    cell = report.tables[0].rows[0].cells[0]
    assert (cell.value, cell.n, cell.sd) == (0.664, 1, None)
    assert (cell.low, cell.high) == pytest.approx((0.6215, 0.7040), abs=1e-4)  # of 332 in 500
    (note,) = {note.text for note in report.tables[0].notes if "one result" in note.text}
    assert "over its 500 test examples" in note
    assert not any("Provisional" in finding for finding in report.findings)


def test_untrained_weights_that_do_differ_by_seed_are_replicates(make):
    digests = [str(seed) * 64 for seed in range(6)]
    runs = [
        *untrained(make, "a", [0.10, 0.11, 0.12, 0.1, 0.11, 0.12], digests),
        *untrained(make, "b", [0.3, 0.31, 0.32, 0.3, 0.31, 0.32], digests),
    ]
    assert ranked(make.request(["a", "b"]), runs).comparisons[0].verdict == "worse"
