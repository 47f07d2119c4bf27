"""`compare` and `difference`: paragraphs and changes from reports alone."""

import pytest

from lightning_bench.reports.render import html, markdown
from lightning_bench.reports.report import Cell, Column, Comparison, Fact, Report, Row, Table
from lightning_bench.reports.text.comparison import compare
from lightning_bench.reports.text.report_diff import difference

COLUMN = Column(
    id="d/accuracy", title="d", unit="%", kind="interval", dataset="d", metric="accuracy",
    higher_is_better=True, scale=100.0, decimals=1,
)  # fmt: skip


def report(verdict: str = "undecided", a: float = 0.9, **facts: str) -> Report:
    rows = [
        Row(
            label=label,
            cells=[Cell(value=value, sd=0.01, low=value - 0.02, high=value + 0.02, n=9)],
        )
        for label, value in (("A", a), ("B", 0.8))
    ]
    pair = Comparison(
        dataset="d", metric="accuracy", a="A", b="B", n=9, difference=a - 0.8, low=0.05, high=0.15,
        blocks=9, low_of_all=0.02, high_of_all=0.18,
        test="max-T", p=0.0039, p_adjusted=0.0078, verdict=verdict, seeds=12,
    )  # fmt: skip
    return Report(
        inputs="i", study="s", scale="smoke", title="t", question="q", command="c",
        runs={"done": 18}, findings=[], comparisons=[pair],
        tables=[Table(id="results", title="t", caption="c", columns=[COLUMN], rows=rows)],
        facts=[Fact(label=label, text=text) for label, text in facts.items()],
    )  # fmt: skip


def test_a_paragraph_has_difference_interval_test_and_verdict() -> None:
    (paragraph,) = compare(report("better"), "A", "B")
    for part in (
        "A 90.0 ± 2.0, B 80.0 ± 2.0",
        "A − B is +10.0, 95 % interval +5.0 to +15.0, paired over 9 seeds",
        "(this pair alone; of all pairs at once +2.0 to +18.0)",
        "sign-flip test gives p = 0.0039, and p = 0.0078 corrected over all pairs",
        "neither was tuned",
        "Verdict: A is better than B.",
    ):
        assert part in paragraph


def test_the_other_way_round_it_says_the_opposite() -> None:
    (paragraph,) = compare(report("better"), "B", "A")
    assert "B − A is −10.0, 95 % interval −15.0 to −5.0" in paragraph
    assert "Verdict: B is worse than A." in paragraph


def test_without_a_claim_it_says_what_one_would_take() -> None:
    (paragraph,) = compare(report(), "A", "B")
    assert "undecided; neither may be called better. About 12 seeds" in paragraph


def test_unequal_budgets_are_said() -> None:
    unequal = report(**{"Not equal": "A was trained with lr 1."})
    assert "Not equal: A was trained with lr 1." in compare(unequal, "A", "B")[0]


def test_entries_that_never_met_have_no_paragraph() -> None:
    assert compare(report(), "A", "C") == []


def test_equal_reports_have_no_difference() -> None:
    found = difference(report(Code="r 1"), report(Code="r 1"))
    assert (found.results, found.causes) == ([], [])


def test_results_and_causes_that_changed_are_named() -> None:
    before = report(Code="bench 1, revision a", Software="torch 2.14, numpy 2")
    after = report(a=0.91, Code="bench 1, revision b", Software="torch 2.15, numpy 2", New="n")
    found = difference(before, after)
    (change,) = found.results
    assert change.what == "A, d accuracy"
    assert change.before.startswith("90.0 ± 2.0 [0.9")
    assert change.after.startswith("91.0 ± 2.0 [0.91")
    assert [(c.what, c.before, c.after) for c in found.causes] == [
        ("Code", "revision a", "revision b"),
        ("Software", "torch 2.14", "torch 2.15"),
        ("New", "", "n"),
    ]


@pytest.mark.parametrize("digits", [1e-9, 1e-12])
def test_even_the_last_digits_count(digits: float) -> None:
    assert difference(report(), report(a=0.9 + digits)).results


def with_tiers(**said: object) -> Report:
    made = report("undecided")
    return made.model_copy(update={"comparisons": [made.comparisons[0].model_copy(update=said)]})


def test_the_tiers_beside_a_verdict_are_told() -> None:
    (paragraph,) = compare(with_tiers(p_welch=0.02, by_welch="better"), "A", "B")
    assert "Welch's t gives p = 0.02 corrected by Holm, which rests on near-normal" in paragraph
    assert "Verdict: undecided" in paragraph
    (paragraph,) = compare(with_tiers(margin=0.5, p_equal=0.016, equal=True), "A", "B")
    assert "They are equal within the page's margin of 0.5 (two one-sided" in paragraph
    (paragraph,) = compare(with_tiers(p_new_examples=0.2), "A", "B")
    assert "On test examples drawn anew it is not shown to hold" in paragraph


def test_pairs_have_a_column_for_the_tiers_where_any_says_something() -> None:
    said = with_tiers(margin=0.5, p_equal=0.016, equal=True)
    silent = with_tiers(p_welch=0.5, by_welch="undecided")
    for renderer in (html, markdown):
        assert "equal within 0.5" in renderer.render(said, [])
        assert "Also: tiers beside the verdict" in renderer.render(said, [])
        assert "Also" not in renderer.render(silent, [])
    header, rule, row = (
        line for line in markdown.render(said, []).splitlines() if line.count("|") > 10
    )
    assert header.count("|") == rule.count("|") == row.count("|") == 13
