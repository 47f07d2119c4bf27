"""Claims on examples drawn anew: the error by hand, and how it is told."""

import numpy as np
import pytest
from scipy import stats

from lightning_bench.reports.build import build
from lightning_bench.reports.statistics.tiers.new_examples import two_sided_p


def test_the_error_has_both_parts():
    d = np.array([0.01, 0.03, 0.02, 0.02, 0.01, 0.03])
    error = np.sqrt(d.var(ddof=1) / 6 + 0.005**2)
    assert two_sided_p(d, 0.005) == pytest.approx(2 * stats.norm.sf(0.02 / error))
    assert two_sided_p(np.zeros(6), 0.0) == 1
    assert two_sided_p(np.full(6, 0.01), 0.0) == 0


def study(make, examples, better=(60, 8), seeds=6):
    """Entries a, b, c on so many examples: b errs on `better[0]` more than a, c on `better[1]`."""
    rng = np.random.default_rng(0)
    target = np.zeros(examples, dtype=np.int64)
    wrong = {"a": 20, "b": 20 + better[0], "c": 20 + better[1]}
    scores, predictions = {entry: [] for entry in wrong}, []
    for entry, count in wrong.items():
        base = rng.permutation(examples)[:count]
        for seed in range(seeds):
            predicted = target.copy()
            predicted[base[seed % 2 :]] = 1
            scores[entry].append(float((predicted == target).mean()))
            predictions.append(
                {"index": np.arange(examples), "predicted": predicted, "target": target}
            )
    request, runs = make.study(scores)
    return request, runs, {run.key: one for run, one in zip(runs, predictions, strict=True)}


def test_a_claim_of_these_examples_need_not_hold_on_new_ones(make):
    report = build(*study(make, 360))
    pairs = {(pair.a, pair.b): pair for pair in report.comparisons}
    assert {pair.verdict for pair in report.comparisons} == {"better", "worse"}
    assert pairs["a", "b"].on_new_examples
    assert not pairs["a", "c"].on_new_examples
    on = {(pair.a, pair.b): pair for pair in report.examples}
    d = np.array([r.record.metrics["accuracy"] for r in study(make, 360)[1]]).reshape(3, 6)
    raw = [two_sided_p(d["abc".index(a)] - d["abc".index(b)], on[a, b].sd) for a, b in pairs]
    smallest_first = sorted(raw)
    assert pairs["a", "b"].p_new_examples == pytest.approx(min(3 * smallest_first[0], 1))
    (sentence,) = (line for line in report.findings if line.startswith("On digits, and"))
    assert sentence.startswith("On digits, and on examples drawn anew, a is better than b (seeds'")
    assert "Than c it is shown on these test examples alone." in sentence
    assert any("these 360 test examples" in line for line in report.findings)
    (note,) = (note for note in report.tables[0].notes if "drawn anew" in note.text)
    marked = {row.label for row in report.tables[0].rows if note.mark in row.cells[0].notes}
    assert marked == {"b"}


def test_without_predictions_nothing_is_said_of_new_examples(make):
    request, runs, _ = study(make, 360)
    report = build(request, runs)
    assert {pair.p_new_examples for pair in report.comparisons} == {None}
    assert not any("drawn anew" in line for line in report.findings)


def test_where_none_holds_it_is_said(make):
    report = build(*study(make, 360, better=(15, 15)))
    (sentence,) = (line for line in report.findings if "drawn anew" in line)
    assert "none holds for examples drawn anew" in sentence
