"""Attempts that came to nothing: told with cause and log, and paid for."""

import pytest

from lightning_bench.bench.store.record import Failure
from lightning_bench.reports.build import build
from lightning_bench.reports.render import latex, markdown
from lightning_bench.reports.report import Attempt
from lightning_bench.reports.tables.failed_attempts import device_h, of_record, total


@pytest.fixture
def retried(make):
    """A run that was lost once, failed once, and then succeeded; another that was pruned."""
    request, runs = make.study({"a": [0.9, 0.8], "b": [0.7, 0.6]})
    failure = Failure(kind="infrastructure", message="killed by SIGKILL", log="runs/k.2/log.txt")
    second = make.record("a", "digits", 0, failure=failure, cost=None, attempt=2)
    earlier = [
        Attempt(
            number=1, end="interrupted", cause="ended without a record", log="runs/k.1/log.txt"
        ),
        of_record(second, "elsewhere"),
    ]
    runs[0] = runs[0].model_copy(update={"earlier": earlier})
    pruned = runs[3].record.model_copy(update={"status": "pruned", "metrics": {"accuracy": 1.0}})
    runs[3] = runs[3].model_copy(update={"state": "pruned", "record": pruned})
    return request, runs


def test_time_is_what_was_measured_else_the_clock_else_unknown(make):
    failure = Failure(kind="code", message="m", log="l")
    assert device_h(make.record()) == pytest.approx(3 / 3600)
    clocked = make.record(failure=failure, cost=None)  # three seconds from start to end
    assert device_h(clocked) == pytest.approx(3 / 3600)
    twice = clocked.provenance.model_copy(update={"devices": 2})
    assert device_h(clocked.model_copy(update={"provenance": twice})) == pytest.approx(6 / 3600)
    vanished = make.record(failure=failure, cost=None, ended="2026-01-01T00:00:00Z")
    assert device_h(vanished) is None


def test_the_total_holds_every_attempt_and_counts_the_unknown(retried):
    _, runs = retried
    assert total(runs[:1]) == (pytest.approx(6 / 3600), 1)
    assert total(runs) == (pytest.approx(15 / 3600), 1)


def test_the_cost_table_says_what_is_in_it(retried):
    table = next(table for table in build(*retried).tables if table.id == "cost")
    cell = table.rows[0].cells[3]
    assert cell.value == pytest.approx(9 / 3600)
    assert [note.text for note in table.notes if note.mark in cell.notes] == [
        "with 2 earlier attempts at its runs",
        "what an attempt took is not known, and not in the total",
    ]


def test_all_are_listed_with_cause_and_log(retried):
    request, runs = retried
    report = build(request, runs)
    found = [(lost.entry, lost.seed, lost.attempt.number, lost.attempt.end) for lost in report.lost]
    assert found == [("a", 0, 1, "interrupted"), ("a", 0, 2, "failed"), ("b", 1, 1, "pruned")]
    for text in (markdown.render(report, runs), latex.render(report, runs)):
        assert "infrastructure: killed by SIGKILL" in text
        assert "runs/k.2/log.txt" in text


def test_a_pruned_run_is_no_result(retried):
    report = build(*retried)
    cell = report.tables[0].rows[1].cells[0]
    assert (cell.value, cell.n) == (0.7, 1)
    assert report.runs == {"done": 3, "pruned": 1}
    alone = retried[1][3]
    state = build(retried[0], [alone]).tables[0].rows[1].cells[0].state
    assert state == "pruned"


def test_a_trial_is_no_result_even_if_it_says_done(make):
    request, runs = make.study({"a": [0.9]})
    trial = runs[0].record.spec.model_copy(update={"tested": False})
    record = runs[0].record.model_copy(update={"spec": trial})
    report = build(request, [runs[0].model_copy(update={"record": record})])
    assert report.tables[0].rows[0].cells[0].n == 0
