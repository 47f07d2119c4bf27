"""What a report says of tuning: ledger, choices, edges, unequal budgets, and estimates."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bench.bench.store.trial import Ledger, Trial
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import Parameter
from lightning_bench.reports.build import build
from lightning_bench.reports.render.write import write
from lightning_bench.reports.statistics import tuning_effort
from lightning_bench.reports.tables import tuning
from lightning_bench.reports.text import comparison

SPACE = {
    "lr": Parameter.model_validate({"float": [1e-4, 1e-1], "log": True}),
    "args.depth": Parameter.model_validate({"int": [2, 6]}),
    "optimizer": Parameter.model_validate({"choice": ["sgd", "adamw"]}),
}


def trial(number: int, value: float | None, **changes: Any) -> Trial:
    params = {
        "lr": 10 ** (-3.9 + 0.2 * (number * 7 % 13)),
        "args.depth": 2 + number % 5,
        "optimizer": ("sgd", "adamw")[number % 2],
    }
    values = {
        "number": number,
        "state": "failed" if value is None else "done",
        "params": params,
        "value": value,
        "device_h": 0.5,
        "keys": [f"k{number}"],
        "started": "",
        "ended": "",
    }
    return Trial(**{**values, **changes})


def ledger(entry: str = "A", values: Any = (0.5, 0.6, 0.55), **changes: Any) -> Ledger:
    budget = {"trials": len(values), "sampler": "random", "pruner": "none"}
    budget |= changes.pop("budget", {})
    trials = changes.pop("trials", None) or [trial(i, value) for i, value in enumerate(values)]
    fields = {
        "entry": entry,
        "dataset": "digits",
        "metric": "accuracy",
        "higher_is_better": True,
        "space": SPACE,
        "budget": Search(**budget),
        "epochs": 3,
        "trials": trials,
    }
    return Ledger(**{**fields, **changes})


def report_of(make: Any, ledgers: list[Ledger], seeds: int = 12) -> Any:
    entries = [ledger.entry for ledger in ledgers]
    scores = make.scores({entry: 0.8 - 0.1 * i for i, entry in enumerate(entries)}, seeds)
    request, runs = make.study(scores)
    return build(request.model_copy(update={"searches": ledgers}), runs), runs


values = st.lists(st.floats(0, 1, width=16), min_size=1, max_size=7)


@given(values, st.booleans())
def test_the_expected_best_is_the_mean_over_all_subsets(found: list[float], higher: bool) -> None:
    best = max if higher else min
    for drawn, expected in enumerate(
        tuning_effort.expected_best(found, higher_is_better=higher), 1
    ):
        subsets = [best(subset) for subset in itertools.combinations(found, drawn)]
        assert expected == pytest.approx(math.fsum(subsets) / len(subsets), abs=1e-12)


def test_the_expected_best_is_without_bias_where_the_plug_in_form_is_not() -> None:
    """Of two uniform draws the larger has mean 2/3, however many values it is estimated from."""
    import random

    generator = random.Random(0)
    draws = [[generator.random() for _ in range(3)] for _ in range(20_000)]
    unbiased = [tuning_effort.expected_best(draw, higher_is_better=True)[1] for draw in draws]
    plugged_in = [sum(max(a, b) for a in draw for b in draw) / 9 for draw in draws]
    assert math.fsum(unbiased) / len(draws) == pytest.approx(2 / 3, abs=0.005)
    assert math.fsum(plugged_in) / len(draws) < 0.63


def test_a_failed_draw_counts_as_the_worst_and_the_recipe_is_no_draw() -> None:
    found = ledger(values=(0.9, 0.5, None, 0.7))
    assert tuning_effort.drawn_values(found) == [0.5, 0.5, 0.7]
    assert tuning_effort.best_so_far(found) == [0.9, 0.9, 0.9, 0.9]
    lower = ledger(values=(0.9, 0.5, None, 0.7), higher_is_better=False)
    assert tuning_effort.drawn_values(lower) == [0.5, 0.7, 0.7]
    assert tuning_effort.best_so_far(lower) == [0.9, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"sampler": "tpe"}, "the trials of tpe depend on one another"),
        ({"pruner": "median"}, "median stopped trials early"),
        ({"cost": "parameters"}, "there is no one best"),
    ],
)
def test_where_there_is_no_expected_best_the_report_says_why(make, budget: Any, why: str) -> None:
    report, _ = report_of(make, [ledger("A", budget=budget), ledger("B", budget=budget)])
    assert [figure.kind for figure in report.figures if figure.kind == "expected"] == []
    assert any(why in fact.text for fact in report.facts)
    assert all(lines.expected == [] for lines in report.searches)


def test_equal_budgets_leave_the_claims_as_they_are(make) -> None:
    report, _ = report_of(make, [ledger("A"), ledger("B")])
    assert any("A is better than B" in finding for finding in report.findings)
    assert next(t for t in report.tables if t.id == "ledger").caption.endswith("the same budget.")
    tuning = next(fact.text for fact in report.facts if fact.label == "Tuning")
    assert tuning.startswith("3 trials for every entry on every data set")
    assert "Both were tuned on one budget" in " ".join(comparison.compare(report, "A", "B"))


def test_unequal_budgets_allow_no_claim_at_all(make) -> None:
    short = ledger("B", (0.5, 0.6), budget={"trials": 3, "device_h": 1.0})
    assert short.closed
    report, runs = report_of(make, [ledger("A", budget={"device_h": 1.0}), short])
    said = " ".join(report.findings)
    assert "is better than" not in said
    assert "tuning budgets were not equal; B had 2 trials (its 1 device-hours were spent)" in said
    assert {pair.verdict for pair in report.comparisons} == {"undecided"}
    assert not any(cell.best for row in report.tables[0].rows for cell in row.cells)
    assert "is better than" not in " ".join(comparison.compare(report, "A", "B"))
    del runs


def test_the_winning_trial_s_own_score_is_in_no_table(make) -> None:
    found = ledger("A", (0.5, 0.987654, 0.55))
    report, _ = report_of(make, [found, ledger("B")])
    cells = [cell for table in report.tables for row in table.rows for cell in row.cells]
    assert not any(cell.value == 0.987654 or "98.7" in cell.printed for cell in cells)
    assert "98.7" not in " ".join(report.findings)


def test_chosen_values_and_those_at_an_edge(make) -> None:
    edge = trial(1, 0.9, params={"lr": 0.0999, "args.depth": 6, "optimizer": "sgd"})
    report, _ = report_of(
        make,
        [
            ledger("A", trials=[trial(0, 0.5), edge, trial(2, 0.3)]),
            ledger("B", trials=[trial(0, 0.7), trial(1, 0.2), trial(2, None)]),
        ],
    )
    table = next(table for table in report.tables if table.id == "chosen")
    shown = {row.label: [cell.printed for cell in row.cells] for row in table.rows}
    assert shown["A"] == ["1", "0.0999", "6", "sgd"]
    assert shown["B"][0] == "the recipe's own"
    said = " ".join(report.findings)
    assert "A's lr 0.0999 on digits, at the high end of 0.0001 to 0.1, log" in said
    assert "A's args.depth 6" in said
    assert "optimizer sgd" not in said


def test_a_search_that_is_not_over_is_provisional(make) -> None:
    going = ledger("B", (0.5, 0.6), budget={"trials": 3}, running=1)
    request, runs = make.study(make.scores({"A": 0.8, "B": 0.7}, 6))
    runs = [run for run in runs if run.entry == "A"]
    report = build(request.model_copy(update={"searches": [ledger("A"), going]}), runs)
    assert any(text.startswith("Provisional: 1 of 2 searches") for text in report.findings)
    notes = [note.text for note in report.tables[0].notes]
    assert "waits for its search (2 of 3 trials are over)" in notes


def test_the_setting_that_matters_is_found() -> None:
    def score(number: int) -> float:
        return trial(number, 0.0).params["args.depth"] / 10  # type: ignore[operator]

    shares = tuning_effort.importances(ledger(values=[score(i) for i in range(40)]))
    assert set(shares) == set(SPACE)
    assert math.fsum(shares.values()) == pytest.approx(1)
    assert shares["args.depth"] > 0.6
    assert tuning_effort.importances(ledger()) == {}


def test_the_front_holds_what_none_beats_in_both(make) -> None:
    points = [(100, 0.5), (200, 0.7), (150, 0.6), (300, 0.65), (200, 0.4)]
    trials = [trial(i, value, cost=cost) for i, (cost, value) in enumerate(points)]
    budget = {"cost": "parameters", "trials": 5}
    found = ledger("A", trials=trials, budget=budget)
    assert [t.number for t in found.front()] == [0, 2, 1]
    assert found.best is not None
    assert found.best.number == 1
    bounded = ledger("A", trials=trials, budget={**budget, "cost_at_most": 160})
    assert bounded.best is not None
    assert bounded.best.number == 2
    report, _ = report_of(make, [found, ledger("B", trials=trials, budget=budget)])
    front = next(table for table in report.tables if table.id == "front")
    assert [row.cells[0].printed for row in front.rows][:3] == ["0", "2", "1 (chosen)"]
    assert front.rows[0].cells[-1].printed == "lr 0.0001259, args.depth 2, optimizer sgd"
    assert "front" in {figure.kind for figure in report.figures}


def test_the_cost_s_axis_has_a_few_plain_numbers(make) -> None:
    from matplotlib.figure import Figure

    from lightning_bench.reports.figures import draw_tuning

    trials = [trial(i, 0.5 + i / 100, cost=1_300.0 + 1_700 * i) for i in range(12)]
    budget = {"cost": "parameters", "trials": 12}
    report, _ = report_of(make, [ledger("A", trials=trials, budget=budget)])
    (wanted,) = [figure for figure in report.figures if figure.kind == "front"]
    drawn = Figure()
    axes = drawn.subplots()
    draw_tuning.draw(axes, wanted, report, report.tables[0].columns[0])
    drawn.canvas.draw()
    assert not any(label.get_text() for label in axes.get_xticklabels(minor=True))
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    shown = [label.get_text() for place, label in ticks if low <= place <= high]
    assert shown == ["2 k", "5 k", "10 k", "20 k"]


def test_every_format_shows_it(make, tmp_path: Path) -> None:
    budget = {"cost": "parameters", "trials": 12}
    costly = [trial(i, 0.5 + i / 100, cost=100.0 + i) for i in range(12)]
    plain = [0.5 + i / 100 for i in range(12)]
    for name, ledgers in {
        "random": [ledger("A", plain), ledger("B", plain)],
        "front": [ledger(e, trials=costly, budget=budget) for e in "AB"],
    }.items():
        report, runs = report_of(make, ledgers)
        write(report, runs, tmp_path / name)
        kinds = {figure.kind for figure in report.figures}
        assert ("expected" if name == "random" else "front") in kinds
        for figure in report.figures:
            assert (tmp_path / name / f"figures/{figure.name}.svg").stat().st_size > 1000
        for suffix in ("md", "html", "tex"):
            text = (tmp_path / name / f"report.{suffix}").read_text(encoding="utf-8")
            assert "What tuning cost" in text
            assert "What was chosen" in text
            assert "What mattered" in text


def test_no_search_leaves_a_report_as_it_was(make) -> None:
    request, runs = make.study(make.scores({"A": 0.8, "B": 0.7}, 6))
    report = build(request, runs)
    assert tuning.tables(request) == []
    assert {table.id for table in report.tables} == {"results", "cost"}
    assert report.searches == []


def test_choices_made_with_other_code_are_told(make) -> None:
    aged = ledger("A", outdated=2, changed=["models/a.py", "models/b.py", "models/c.py"])
    report, _ = report_of(make, [aged, ledger("B")])
    (said,) = [finding for finding in report.findings if "other code" in finding]
    assert said.startswith(
        "The search of A on digits: 2 of 3 trials ran with other code (models/a.py, "
        "models/b.py and 1 more changed since)."
    )
