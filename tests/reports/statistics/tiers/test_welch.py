"""Welch's tier below six seeds, against scipy and statsmodels, and what it may not do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lightning_bench.reports.build import build
from lightning_bench.reports.statistics.tiers.holm import holm
from lightning_bench.reports.statistics.tiers.welch import welch


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_that_of_the_definition(p):
    """The largest, over all p up to its own, of p times the hypotheses not yet rejected."""
    ordered = sorted(p)
    steps = [min(1, value * (len(p) - i)) for i, value in enumerate(ordered)]
    expected = [max(steps[: ordered.index(value) + p[:place].count(value) + 1])
                for place, value in enumerate(p)]  # fmt: skip
    # Of equal p the later ones are never smaller than the first.
    assert holm(np.array(p)).tolist() == pytest.approx(expected)


def test_welch_is_that_of_scipy():
    rng = np.random.default_rng(0)
    samples = [rng.normal(0, sd, n) for sd, n in ((1, 3), (10, 3), (1, 5), (0.1, 4))]
    means = np.array([x.mean() for x in samples])
    variances = np.array([x.var(ddof=1) for x in samples])
    found = welch(means, variances, np.array([len(x) for x in samples], dtype=float))
    for i, a in enumerate(samples):
        for j, b in enumerate(samples):
            if i != j:
                assert found[i, j] == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_two_constants_are_no_evidence():
    found = welch(np.array([0.9, 0.8]), np.array([0.0, 1e-34]), np.array([3.0, 3.0]))
    assert found[0, 1] == 1


SCORES = {"a": [0.95, 0.951, 0.949], "b": [0.90, 0.901, 0.899], "c": [0.9493, 0.951, 0.9503]}


def test_three_seeds_give_an_indication_that_is_no_verdict(make):
    request, runs = make.study(SCORES)
    report = build(request, runs)
    pairs = {(pair.a, pair.b): pair for pair in report.comparisons}
    p = [stats.ttest_ind(SCORES[a], SCORES[b], equal_var=False).pvalue for a, b in pairs]
    assert [pair.p_welch for pair in pairs.values()] == pytest.approx(holm(np.array(p)).tolist())
    assert pairs["a", "b"].by_welch == "better"
    assert pairs["b", "c"].by_welch == "worse"
    assert pairs["b", "c"].turned().by_welch == "better"
    assert pairs["a", "c"].by_welch == "undecided"
    assert {pair.verdict for pair in report.comparisons} == {"undecided"}
    assert not any(cell.best for row in report.tables[0].rows for cell in row.cells)
    (sentence,) = (line for line in report.findings if "Welch" in line)
    assert sentence.startswith("By Welch's t, corrected by Holm over 3 pairs, p")
    assert "on digits c above b" in sentence
    assert "near-normal noise, which 3 seeds can't show: an indication, no claim" in sentence


@pytest.mark.parametrize("seeds", [2, 6])
def test_two_seeds_are_too_few_and_six_have_a_test_of_their_own(make, seeds):
    scores = {"a": np.linspace(0.95, 0.951, seeds), "b": np.linspace(0.90, 0.901, seeds)}
    report = build(*make.study({entry: x.tolist() for entry, x in scores.items()}))
    assert report.comparisons[0].p_welch is None
    assert not any("Welch" in line for line in report.findings)


def test_no_indication_while_runs_are_missing(make):
    report = build(*make.study({**SCORES, "a": [*SCORES["a"][:2], None]}))
    assert not any("Welch" in line for line in report.findings)


def test_less_may_be_better(make):
    request, runs = make.study(SCORES)
    report = build(request.model_copy(update={"higher_is_better": {"accuracy": False}}), runs)
    (sentence,) = (line for line in report.findings if "Welch" in line)
    assert "on digits b above a and c" in sentence
