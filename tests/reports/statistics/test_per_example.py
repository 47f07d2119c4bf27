"""Comparisons on test examples: against other packages, closed forms, and under no difference."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics
from statsmodels.stats.contingency_tables import mcnemar as other_mcnemar

from lightning_bench.models.tasks.scores import score
from lightning_bench.reports.build import build
from lightning_bench.reports.render import html, markdown
from lightning_bench.reports.statistics import per_example
from lightning_bench.reports.text.comparison import compare


def predictions(predicted, target, **more):
    index = np.arange(len(target))
    return {"index": index, "predicted": np.array(predicted), "target": np.array(target), **more}


def right(shares, n=200, rng=0):
    """Predictions of two classes, right with these probabilities, on one test set."""
    generator = np.random.default_rng(rng)
    target = generator.integers(2, size=n)
    return [
        predictions(np.where(generator.random(n) < share, target, 1 - target), target)
        for share in shares
    ]


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_agrees_with_statsmodels(b, c):
    assert per_example.mcnemar(b, c) == pytest.approx(other_mcnemar([[3, b], [c, 9]]).pvalue)


def test_mcnemar_by_hand():
    # Of 5 examples that one of them gets right, all are A's: twice (1/2)^5.
    assert per_example.mcnemar(5, 0) == 2 / 2**5
    assert per_example.mcnemar(0, 0) == 1
    a, b = predictions([1, 1, 0, 0], [1, 1, 1, 0]), predictions([1, 0, 1, 1], [1, 1, 1, 0])
    assert per_example.only("accuracy", a, b) == (2, 1)


@st.composite
def classified(draw):
    n = draw(st.integers(2, 40))
    classes = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    return predictions(draw(classes), draw(classes))


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize(
    ("metric", "other"),
    [
        ("accuracy", metrics.accuracy_score),
        ("f1", lambda target, predicted: metrics.f1_score(target, predicted, zero_division=0)),
        ("matthews", metrics.matthews_corrcoef),
    ],
)
def test_metrics_from_sums_agree_with_scikit_learn_on_every_draw(metric, other):
    @given(classified())
    def agrees(found):
        (values,) = per_example.redrawn(metric, [[found]])
        n = len(found["index"])
        rng = np.random.default_rng(0)
        draws = [np.arange(n), *rng.integers(n, size=(per_example.RESAMPLES, n))[:5]]
        expected = [other(found["target"][draw], found["predicted"][draw]) for draw in draws]
        assert values[:6, 0] == pytest.approx(expected, abs=1e-12)

    agrees()


def test_matthews_of_several_classes_and_pearson():
    rng = np.random.default_rng(3)
    target = rng.integers(4, size=90)
    found = predictions(np.where(rng.random(90) < 0.5, target, rng.integers(4, size=90)), target)
    (values,) = per_example.redrawn("matthews", [[found]])
    assert values[0, 0] == pytest.approx(metrics.matthews_corrcoef(target, found["predicted"]))
    x, y = rng.normal(size=(2, 50)) + 1e4
    (values,) = per_example.redrawn("pearson", [[predictions(x, x + 0.3 * y)]])
    assert values[0, 0] == pytest.approx(stats.pearsonr(x, x + 0.3 * y)[0], rel=1e-6)
    (values,) = per_example.redrawn("pearson", [[predictions(np.ones(5), np.arange(5.0))]])
    assert values[0, 0] == 0


def test_masked_texts_weigh_by_their_tokens():
    found = predictions([1, 3], [2, 6], loss=np.array([1.0, 5.0]))
    assert per_example.redrawn("perplexity", [[found]])[0][0, 0] == pytest.approx(math.exp(6 / 8))
    assert per_example.redrawn("masked_accuracy", [[found]])[0][0, 0] == 4 / 8


def test_several_right_classes_and_examples_without_a_label():
    target = [[3, 4], [5, -1], [-1, -1], [0, 1]]
    found = predictions([4, 1, 2, 0], target)
    assert per_example.redrawn("accuracy", [[found]])[0][0, 0] == 2 / 3


def test_a_metric_that_is_no_sum_over_examples_is_left_alone(make):
    assert per_example.sums("spearman", predictions([1.0], [1.0])) is None


def two(make, shares=(0.9, 0.8), seeds=3, n=200):
    """A study of two entries with predictions, whose records say what these give."""
    found, scores = {}, {"a": [], "b": []}
    for seed in range(seeds):
        pair = right(shares, n)
        for entry, one in zip(scores, pair, strict=True):
            scores[entry].append(float(np.mean(one["predicted"] == one["target"])))
            found[entry, seed] = one
    request, runs = make.study(scores)
    return request, runs, {run.key: found[run.entry, run.seed] for run in runs}


def test_the_interval_is_that_of_the_closed_form(make):
    request, runs, known = two(make, seeds=1, n=1_000)
    (pair,) = build(request, runs, known).examples
    (b,), (c,), n = pair.only_a, pair.only_b, pair.n
    assert pair.difference == pytest.approx((b - c) / n)
    # The variance of a difference of paired shares: (b + c − (b − c)²/n) / n².
    half = 1.96 * math.sqrt(b + c - (b - c) ** 2 / n) / n
    assert (pair.high - pair.low) / 2 == pytest.approx(half, rel=0.1)
    assert pair.p == [per_example.mcnemar(b, c)]


def test_without_a_difference_few_intervals_leave_out_zero_and_few_p_are_small(make, monkeypatch):
    monkeypatch.setattr(per_example, "RESAMPLES", 400)
    left_out, small = 0, 0
    for rng in range(1_000):
        a, b = right((0.9, 0.9), n=150, rng=rng)
        values = per_example.redrawn("accuracy", [[a], [b]])
        low, high = np.quantile((values[0] - values[1])[1:], [0.025, 0.975])
        left_out += not low <= 0 <= high
        small += per_example.mcnemar(*per_example.only("accuracy", a, b)) <= 0.05
    assert 10 < left_out < 70  # a percentile interval is a little narrow
    assert 0 < small <= 50  # an exact test never errs more often than it says


def test_it_claims_nothing_and_says_what_it_is_about(make):
    request, runs, known = two(make)
    report, without = build(request, runs, known), build(request, runs)
    assert report.comparisons == without.comparisons
    assert report.tables == without.tables
    said = report.findings[-1]
    assert "the same trained models would have differed" in said
    assert "digits, 200 examples, a − b: +" in said
    assert "no claim rests on it" in said
    (paragraph,) = compare(report, "b", "a")
    assert "On the same 200 test examples" in paragraph
    assert "(b : a, by seed)" in paragraph
    assert "not about training again. Verdict: undecided" in paragraph
    text = markdown.render(report, runs)
    assert "## On the same test examples" in text
    page = html.render(report, runs)
    assert 'id="examples"' in page


def test_one_seed_each_has_a_paragraph_and_no_verdict(make):
    request, runs, known = two(make, seeds=1)
    (paragraph,) = compare(build(request, runs, known), "a", "b")
    assert "McNemar's exact test gives p" in paragraph
    assert "Verdict: none; with one seed each" in paragraph


def test_only_the_same_examples_are_compared(make):
    request, runs, known = two(make)
    other = {**known[runs[0].key], "target": 1 - known[runs[0].key]["target"]}
    assert build(request, runs, {**known, runs[0].key: other}).examples == []


def test_what_could_not_be_read_is_said(make):
    request, runs, known = two(make)
    runs = [
        run.model_copy(update={"record": run.record.model_copy(update={"predictions": "f" * 64})})
        for run in runs
    ]
    missing = {key: one for key, one in known.items() if key != runs[0].key}
    said = build(request, runs, missing).findings[-1]
    assert said == "Per-example results are missing or damaged: a on digits, seed 0."
    assert "damaged" not in build(request, runs).findings[-1]


def test_each_metric_of_two_heads_reads_its_own_column() -> None:
    found = {
        "index": np.arange(2),
        "target": np.array([[10, 1], [30, 0]]),  # masked tokens, the pair's class
        "predicted": np.array([[5, 1], [5, 1]]),  # right ones, the pair's prediction
        "loss": np.array([[20.0, 0.1], [60.0, 9.0]]),
    }
    for metric, expected in {
        "masked_accuracy": 0.25,
        "nsp_accuracy": 0.5,
        "perplexity": np.exp(2.0),
    }.items():
        columns, of = per_example.sums(metric, found)
        assert of(columns.sum(axis=0, keepdims=True))[0] == pytest.approx(expected)


def test_metrics_of_predictions_are_those_of_training() -> None:
    rng = np.random.default_rng(3)
    classes = {name: rng.integers(2, size=300) for name in ("predicted", "target")}
    numbers = {name: rng.integers(9, size=300).astype(np.float32) for name in classes}  # with ties
    for names, found in (
        (("accuracy", "f1", "matthews"), classes),
        (("pearson", "spearman"), numbers),
    ):
        trained = score(names, {name: torch.from_numpy(values) for name, values in found.items()})
        for name in names:
            assert per_example.metric_of(name, found) == pytest.approx(trained[name], abs=1e-6)
    same = {"predicted": np.ones(3, np.float32), "target": np.arange(3, dtype=np.float32)}
    assert per_example.metric_of("spearman", same) == 0.0
    assert per_example.metric_of("loss", numbers) is None


def test_entries_are_not_compared_on_examples_that_every_seed_draws_for_itself(make):
    request, runs = make.study(make.scores({"a": 0.8, "b": 0.95}, 6))
    one, other = right((0.8, 0.95))
    found = {run.key: one if run.entry == "a" else other for run in runs}
    assert len(build(request, runs, found).examples) == 1

    def drawn(run, split):
        data = run.record.spec.data.model_copy(update={"split": split})
        spec = run.record.spec.model_copy(update={"data": data})
        return run.model_copy(update={"record": run.record.model_copy(update={"spec": spec})})

    # Although by their numbers the examples look the same.
    report = build(request, [drawn(run, "seed") for run in runs], found)
    assert report.examples == []
    assert "test examples of each seed's own) b is better than a" in " ".join(report.findings)
    facts = {fact.label: fact.text for fact in report.facts}
    assert facts["Data, digits"].startswith("Split anew by each seed, so that entries are compared")
    assert len(build(request, [drawn(run, "validation") for run in runs], found).examples) == 1
