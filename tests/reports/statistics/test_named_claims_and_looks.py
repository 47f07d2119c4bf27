"""Named claims, planned looks and e-values: who is in the family, and what may be said when."""

from typing import Any

import numpy as np
import pytest

from lightning_bench.bench.store.look_ledger import Claimed, LookTaken
from lightning_bench.bench.study.claims import Claim
from lightning_bench.bench.study.looks import Looks
from lightning_bench.reports.build import build
from lightning_bench.reports.render.write import write
from lightning_bench.reports.statistics import e_values, samples
from lightning_bench.reports.statistics.family import Family
from lightning_bench.reports.statistics.looks import Allowance
from lightning_bench.reports.statistics.ranking import Rankings, rank
from lightning_bench.reports.text import numbers
from lightning_bench.reports.text.comparison import compare


def claims(*written: Any) -> list[Claim]:
    return [Claim.model_validate(claim) for claim in written]


@pytest.fixture
def made(make):
    """A request and runs of accuracies, entries × data sets × seeds; NaN was never run."""

    def study(values, looks: Looks | None = None, named=(), **changes: Any):
        values = np.asarray(values, float)
        entries, datasets, seeds = values.shape
        labels = [chr(ord("a") + i) for i in range(entries)]
        titles = ["digits"] if datasets == 1 else [f"d{i}" for i in range(datasets)]
        request = make.request(
            labels, titles, seeds=list(range(seeds)), looks=looks, claims=list(named), **changes
        )
        record = make.record(metrics={"accuracy": 0.5})
        runs = [
            make.run(label, title, seed, None).model_copy(
                update={
                    "state": "missing" if np.isnan(value) else "done",
                    "record": record.model_copy(update={"metrics": {"accuracy": float(value)}}),
                }
            )
            for label, per_data in zip(labels, values, strict=True)
            for title, per_seed in zip(titles, per_data, strict=True)
            for seed, value in enumerate(per_seed)
        ]
        return request, runs

    return study


def ranked(request, runs) -> Rankings:
    return rank(request, samples.collect(request, runs))


def spread(means, seeds, sd=0.002, datasets=1, rng=0):
    noise = np.random.default_rng(rng).normal(0, sd, (len(means), datasets, seeds))
    return np.asarray(means)[:, None, None] + noise


def verdicts(found: Rankings) -> dict[tuple[str, str], str]:
    return {(p.a, p.b): "described" if p.described else p.verdict for p in found.comparisons}


def test_named_pairs_are_the_family_and_the_others_are_described(made):
    request, runs = made(spread([0.9, 0.8, 0.7], 6), named=claims(["b", "a"], ["a", "c"]))
    found = ranked(request, runs)
    assert found.pairs == found.look.pairs == 2
    assert verdicts(found) == {("b", "a"): "worse", ("a", "c"): "better", ("b", "c"): "described"}
    described = found.comparisons[-1]
    assert described.p == 2 / 64  # as clear as the others; no claim was sought
    assert (described.low_of_all, described.p_adjusted) == (None, None)
    report = build(request, runs)
    said = " ".join(report.findings)
    assert "a is better than b (p = 0.031)" in said
    assert "b is better than c" not in said
    assert "The family is the 2 comparisons that the page names" in said
    assert "The other pair is described, and nothing is claimed of it" in said
    assert not any(row.cells[0].best for row in report.tables[0].rows)


def test_a_named_family_corrects_for_fewer_pairs(made):
    values = spread([0.9, 0.9004, 0.9, 0.9, 0.9, 0.9], 12, sd=0.0004, rng=1)
    (named,) = (p for p in ranked(*made(values, named=claims(["b", "a"]))).comparisons
                if not p.described)  # fmt: skip
    every = next(p for p in ranked(*made(values)).comparisons if (p.a, p.b) == ("a", "b"))
    assert named.p == pytest.approx(every.p)
    assert named.p_adjusted == named.p < every.p_adjusted


def test_five_seeds_can_claim_a_direction_that_was_named_and_only_that(made):
    values = spread([0.9, 0.8], 5)
    right, wrong = (ranked(*made(values, named=claims(text))) for text in ("a > b", "b > a"))
    (pair,) = right.comparisons
    assert (pair.verdict, pair.expected, pair.p_adjusted) == ("better", "better", 1 / 32)
    assert pair.low_of_all > 0
    assert pair.high_of_all is None
    (pair,) = wrong.comparisons
    assert (pair.verdict, pair.p_adjusted) == ("undecided", 1.0)
    assert ranked(*made(values, named=claims(["a", "b"]))).comparisons[0].verdict == "undecided"
    turned = right.comparisons[0].turned()
    assert (turned.verdict, turned.expected, turned.low_of_all) == ("worse", "worse", None)


def test_better_is_lower_where_the_metric_says_so(made):
    request, runs = made(spread([0.9, 0.8], 5), named=claims("b > a"))
    request = request.model_copy(update={"higher_is_better": {"accuracy": False}})
    (pair,) = ranked(request, runs).comparisons
    assert (pair.a, pair.verdict) == ("b", "better")
    assert pair.high_of_all < 0
    assert pair.low_of_all is None


def test_a_named_pair_is_tested_on_every_data_set_and_the_mean_or_where_it_says(made):
    values = spread([0.9, 0.8, 0.7], 6, datasets=2)
    found = ranked(*made(values, named=claims(["a", "b"])))
    assert {p.dataset for p in found.comparisons if not p.described} == {
        "d0", "d1", "mean of 2 data sets",
    }  # fmt: skip
    assert found.pairs == 3
    for on in ("d1", "mean"):
        found = ranked(*made(values, named=claims({"pair": ["a", "b"], "on": on})))
        (pair,) = (p for p in found.comparisons if not p.described)
        assert pair.dataset == {"mean": "mean of 2 data sets"}.get(on, on)
        assert pair.verdict == "better"


def test_three_seeds_on_two_data_sets_claim_a_named_mean(made):
    found = ranked(*made(spread([0.9, 0.8, 0.7], 3, datasets=2), named=claims(["a", "b"])))
    decided = [p for p in found.comparisons if p.verdict == "better"]
    assert [(p.dataset, p.blocks) for p in decided] == [("mean of 2 data sets", 6)]


@pytest.mark.parametrize(
    ("named", "seeds"),
    [
        ((["b", "a"], ["c", "a"], ["d", "a"]), 6),
        (("b > a", "c > a", "d > a"), 5),
        (("b > a", ["c", "a"], "d > c"), 8),
    ],
)
def test_alike_entries_are_claimed_in_at_most_5_of_100_studies(made, named, seeds):
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(300):
        values = 0.9 + rng.normal(0, 0.01, (4, 1, seeds)) + rng.normal(0, 0.01, (1, 1, seeds))
        found = ranked(*made(values, named=claims(*named)))
        false += any(pair.verdict != "undecided" for pair in found.comparisons)
    assert 0 < false <= 24  # 8 %: 300 studies tell no more


LOOKS = Looks(looks=[6, 9, 12])


def at(request, runs, seeds: int):
    """The study as it is at a look."""
    study = request.study.model_copy(update={"seeds": list(range(seeds))})
    kept = [run for run in runs if run.seed < seeds]
    return request.model_copy(update={"study": study}), kept


def test_a_verdict_of_an_earlier_look_stays_and_says_so(made):
    values = spread([0.9, 0.8], 12)
    values[0, 0, 6:] = 0.7  # what comes later says otherwise
    request, runs = made(values, LOOKS)
    first = ranked(*at(request, runs, 6))
    assert (first.comparisons[0].verdict, first.look.alpha) == ("better", 0.03125)
    assert (first.look.undecided, first.comparisons[0].decided_at) == (0, None)
    last = ranked(request, runs)
    (pair,) = last.comparisons
    assert (pair.verdict, pair.decided_at, pair.p_adjusted) == ("better", 6, 0.03125)
    said = " ".join(build(request, runs).findings)
    assert "12 paired seeds: p = 0.031; decided at an earlier look: b at 6 seeds" in said


def test_a_look_claims_with_what_it_spends_and_no_more(made):
    values = spread([0.9, 0.8], 9)
    values[0, 0, 0] = values[1, 0, 0] - 0.15  # one seed far against eight
    request, runs = made(values, LOOKS)
    (pair,) = ranked(request, runs).comparisons
    assert 0.0117 < pair.p_adjusted < 0.05
    assert pair.verdict == "undecided"
    alone = request.study.model_copy(update={"looks": None})
    (pair,) = ranked(request.model_copy(update={"study": alone}), runs).comparisons
    assert pair.verdict == "better"


def test_between_looks_nothing_new_is_claimed_and_what_was_stays(made):
    values = spread([0.9, 0.8, 0.8], 9)
    values[2, 0, 8] = np.nan
    request, runs = made(values, LOOKS)
    report = build(request, runs)
    said = " ".join(report.findings)
    assert "No claim between looks: look 2 of 3 is at 9 seeds" in said
    assert "a is better than b (p = 0.031 at 6 seeds) on digits" in said
    assert not report.look.possible
    undecided = {(p.a, p.b): p.verdict for p in report.comparisons}
    assert undecided == {("a", "b"): "better", ("a", "c"): "better", ("b", "c"): "undecided"}


@pytest.mark.parametrize("looks", [LOOKS, Looks(grow=14)])
def test_alike_entries_are_claimed_at_any_look_in_at_most_5_of_100_studies(made, looks):
    rng = np.random.default_rng(6)
    seeds, false = looks.grow or 12, 0
    for _ in range(200):
        values = 0.9 + rng.normal(0, 0.01, (3, 1, seeds))
        found = ranked(*made(values, looks))
        false += any(pair.verdict != "undecided" for pair in found.comparisons)
    assert false <= 17


def test_e_values_decide_at_the_first_number_of_seeds_that_shows(made):
    request, runs = made(spread([0.9, 0.8], 10), Looks(grow=20))
    found = ranked(request, runs)
    (pair,) = found.comparisons
    assert found.look.method == "e-values"
    assert pair.verdict == "better"
    assert pair.decided_at in (6, 7)
    assert pair.p_adjusted <= 0.05
    assert pair.low_of_all is None
    assert "e-values hold 5 % at every number of seeds" in " ".join(build(request, runs).findings)


def test_no_e_value_claims_against_the_mean(made):
    values = np.full((2, 1, 40), 0.8)
    values[0] += np.linspace(0.001, 0.0011, 40)
    values[0, 0, 39] = 0.1  # 39 seeds a little better, the last far worse
    request, runs = made(values, Looks(grow=40))
    difference = values[:1, 0] - values[1:, 0]
    assert difference.mean() < 0
    assert e_values.e_values(difference)[0, -1] > 20
    allowed = Allowance(0.05, e_values=True)
    family = Family.of(request, samples.collect(request, runs), allowed, [])
    assert family.contests[0].p_adjusted == [1.0]


def taken(seeds: int, **changes: Any) -> LookTaken:
    cells = {"digits": {"a": "A", "b": "B"}}
    known: dict[str, Any] = {
        "study": "quickstart", "scale": "smoke", "entries": ["a", "b"],
        "seeds": list(range(seeds)), "n": seeds, "alpha": 0.05, "method": "max-T", "named": False,
        "cells": cells, "family": "f", "results": f"r{seeds}", "taken": "2026-01-02T00:00:00",
    }  # fmt: skip
    return LookTaken(**(known | changes))


def test_a_second_look_that_nobody_planned_has_nothing_left_to_spend(made):
    request, runs = made(spread([0.9, 0.8], 10))
    assert ranked(request, runs).comparisons[0].verdict == "better"
    after = request.model_copy(update={"this_look": taken(10), "earlier_looks": [taken(6)]})
    report = build(after, runs)
    assert report.comparisons[0].verdict == "undecided"
    said = " ".join(report.findings)
    assert "A second look; alpha left: 0. The look at 6 seeds (2026-01-02, looks.jsonl)" in said
    assert "seeds: {looks: [6, 10]}" in said
    claimed = [Claimed(dataset="digits", a="a", b="b", p=0.03125)]
    stood = after.model_copy(update={"earlier_looks": [taken(6, claimed=claimed)]})
    (pair,) = build(stood, runs).comparisons
    assert (pair.verdict, pair.decided_at) == ("better", 6)


def test_planned_looks_have_what_they_left_each_other(made):
    request, runs = made(spread([0.9, 0.8], 9), LOOKS)
    looks = {"this_look": taken(9), "earlier_looks": [taken(6, alpha=0.03125)]}
    assert ranked(request.model_copy(update=looks), runs).look.alpha == pytest.approx(0.01171875)
    looks = {"this_look": taken(9), "earlier_looks": [taken(8)]}  # one that was not planned
    assert ranked(request.model_copy(update=looks), runs).look.alpha == 0


def test_looks_at_other_seeds_or_other_models_spend_nothing_here(made):
    request, runs = made(spread([0.9, 0.8], 6))
    fresh = taken(6).model_copy(update={"seeds": list(range(20, 26))})
    others = taken(9, cells={"digits": {"a": "A", "b": "other"}})
    for earlier in (fresh, others):
        looks = {"this_look": taken(6), "earlier_looks": [earlier]}
        report = build(request.model_copy(update=looks), runs)
        assert report.comparisons[0].verdict == "better"
    said = " ".join(
        build(request.model_copy(update={**looks, "earlier_looks": [fresh]}), runs).findings
    )
    assert "had seeds 20–25, of which none is here" in said


def test_claims_that_were_named_after_a_look_are_none(made):
    request, runs = made(spread([0.9, 0.8], 6), named=claims(["a", "b"]))
    looks = {
        "this_look": taken(6, named=True, family="named"),
        "earlier_looks": [taken(6)],
    }
    report = build(request.model_copy(update=looks), runs)
    assert report.comparisons[0].verdict == "undecided"
    assert "chosen with results in sight" in " ".join(report.findings)


def test_e_values_and_looks_do_not_share_one_error_twice(made):
    request, runs = made(spread([0.9, 0.8], 9), Looks(grow=20))
    looks = {"this_look": taken(9, method="e-values"), "earlier_looks": [taken(6)]}
    assert ranked(request.model_copy(update=looks), runs).look.alpha == 0
    grown = [taken(6, method="e-values")]
    looks = {"this_look": taken(9, method="e-values"), "earlier_looks": grown}
    assert ranked(request.model_copy(update=looks), runs).look.alpha == 0.05


def test_pages_say_which_pairs_are_described_and_by_which_test(made, tmp_path):
    request, runs = made(spread([0.9, 0.8, 0.7], 6), named=claims("a > b"))
    report = build(request, runs)
    write(report, runs, tmp_path, ["md", "html", "json"])
    page = (tmp_path / "report.md").read_text("utf-8")
    (named,) = (line for line in page.splitlines() if line.startswith("| digits | a | b |"))
    assert "| ≥ +" in named
    assert named.endswith("| better | – |")
    (other,) = (line for line in page.splitlines() if line.startswith("| digits | a | c |"))
    assert "| – | described | – |" in other
    assert "nothing is claimed of them" in page
    html = (tmp_path / "report.html").read_text("utf-8")
    assert html.count(">described<") == 2
    assert "<strong>described" not in html
    paragraphs = " ".join(compare(report, "a", "c"))
    assert "Verdict: none is sought" in paragraphs
    request, runs = made(spread([0.9, 0.8], 7), Looks(grow=9))
    assert "1 / e of that pair alone" in numbers.caption_of_pairs(build(request, runs))


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (["a", "b", "c"], "had other entries: a, b and c."),
        (["b", "a"], "had the same entries, with other settings or other claims."),
    ],
)
def test_what_an_earlier_look_had_otherwise_is_said(made, entries: list[str], says: str):
    request, runs = made(spread([0.9, 0.8], 6))
    cells = {"digits": {"a": "A", "b": "B", "c": "C"}}
    earlier = taken(6, entries=entries, cells=cells, family="another")
    looks = {"this_look": taken(6), "earlier_looks": [earlier]}
    assert says in " ".join(build(request.model_copy(update=looks), runs).findings)
