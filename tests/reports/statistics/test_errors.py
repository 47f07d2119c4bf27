"""Confusion matrices and the overlap of errors: against scikit-learn, and every pair of runs."""

from itertools import permutations, product

import numpy as np
import pytest
from sklearn import metrics

from lightning_bench.common.targets import NO_LABEL
from lightning_bench.reports.build import build
from lightning_bench.reports.render import html
from lightning_bench.reports.statistics import errors


def predictions(predicted, target):
    index = np.arange(len(target))
    return {"index": index, "predicted": np.array(predicted), "target": np.array(target)}


def runs_of(seeds, classes=4, n=80, share=0.6):
    """Predictions of several seeds on one test set."""
    rng = np.random.default_rng(seeds)
    target = np.random.default_rng(9).integers(classes, size=n)
    return [
        predictions(np.where(rng.random(n) < share, target, rng.integers(classes, size=n)), target)
        for _ in range(seeds)
    ]


def matrix_of(runs, classes):
    """The confusion matrix of all of them together."""
    target, predicted = (
        np.concatenate([run[of] for run in runs]) for of in ("target", "predicted")
    )
    return metrics.confusion_matrix(target, predicted, labels=range(classes))


def overlap_by_pairs(a, b, *, same):
    """The definition, pair by pair."""
    pairs = permutations(a, 2) if same else product(a, b)
    wrong = [tuple(one["predicted"] != one["target"] for one in pair) for pair in pairs]
    both, either = (
        sum(int(how(*pair).sum()) for pair in wrong) for how in (np.logical_and, np.logical_or)
    )
    return both / either if either else None


def test_overlaps_are_those_of_every_pair_of_runs():
    found = {"A": runs_of(3), "B": runs_of(2, share=0.3), "one": runs_of(1)}
    wrong = {entry: errors.times_wrong(runs) for entry, runs in found.items()}
    overlaps = errors.overlaps(wrong)
    for a, b in product(found, found):
        wanted = overlap_by_pairs(found[a], found[b], same=a == b)
        assert overlaps[a][b] == (None if wanted is None else pytest.approx(wanted))
    assert overlaps["one"]["one"] is None
    assert overlaps["A"]["B"] == overlaps["B"]["A"]


def test_two_that_err_alike_overlap_wholly_and_a_perfect_one_has_none():
    wrong = {
        "A": (2, np.array([2, 0, 2])),
        "same": (1, np.array([1, 0, 1])),
        "never": (1, np.zeros(3, int)),
    }
    overlaps = errors.overlaps(wrong)
    assert overlaps["A"]["same"] == overlaps["A"]["A"] == 1
    assert overlaps["A"]["never"] == 0
    assert overlaps["never"]["never"] is None


def test_what_has_several_right_classes_is_wrong_where_none_is_said():
    run = predictions([1, 2, 0], [[0, 1], [0, 1], [NO_LABEL, NO_LABEL]])
    assert errors.times_wrong([run])[1].tolist() == [0, 1, 0]


def reported(make, found, labels, **changes):
    request, runs = make.study({entry: [0.5] * len(of) for entry, of in found.items()})
    request = request.model_copy(update={"classes": {"digits": labels}, **changes})
    by_key = {run.key: found[run.entry][run.seed] for run in runs}
    return build(request, runs, by_key), runs


def test_matrices_are_pooled_over_seeds_and_agree_with_scikit_learn(make):
    found = {"A": runs_of(3), "B": runs_of(3, share=0.3)}
    report, runs = reported(make, found, ["zero", "one", "<b>", "three"])
    (told,) = report.errors
    for entry, of in found.items():
        wanted = sum(
            metrics.confusion_matrix(one["target"], one["predicted"], labels=range(4)) for one in of
        )
        assert told.confusion[entry] == wanted.tolist()
    assert told.confused == {}
    page = html.render(report, runs)
    assert page.count("<summary>Confusion matrix: ") == 2
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    row = told.confusion["A"][0]
    assert f'title="{row[0]} of {sum(row)}">{100 * row[0] / sum(row):.0f}</td>' in page


def test_of_many_classes_the_most_confused_pairs_are_listed(make):
    found = {"A": runs_of(2, classes=30, n=400)}
    report, runs = reported(make, found, [f"class {k}" for k in range(30)])
    (told,) = report.errors
    assert told.confusion == {}
    matrix = sum(
        metrics.confusion_matrix(one["target"], one["predicted"], labels=range(30))
        for one in found["A"]
    )
    listed = told.confused["A"]
    off = matrix - np.diag(np.diag(matrix))
    assert [pair.count for pair in listed] == sorted(off.ravel(), reverse=True)[:10]
    for pair in listed:
        i, j = int(pair.target[6:]), int(pair.predicted[6:])
        assert pair.count == matrix[i, j]
        assert pair.share == pytest.approx(matrix[i, j] / matrix[i].sum())
    assert "<summary>Most confused: A" in html.render(report, runs)


def test_other_examples_or_no_classes_have_none(make):
    one, other = runs_of(1)[0], runs_of(1)[0]
    other = {**other, "target": 3 - other["target"]}
    report, _ = reported(make, {"A": [one], "B": [other]}, list("abcd"))
    assert report.errors == []
    report, runs = reported(make, {"A": [one]}, [], classes={})
    assert report.errors == []
    assert 'id="errors"' not in html.render(report, runs)
