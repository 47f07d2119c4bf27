"""The report as numbers: what is in the table, what is explained, what is claimed."""

import random

from reports.build import build
from reports.table import Report


def test_main_table_is_the_same_bits_for_the_same_metrics_in_any_order(quickstart):
    request, runs = quickstart(5)
    shuffled = random.Random(0).sample(runs, len(runs))
    slower = [
        run.model_copy(
            update={
                "record": run.record.model_copy(
                    update={
                        "ended": "2026-12-24T00:00:00Z",
                        "cost": run.record.cost.model_copy(update={"train_s": 99.0}),
                    }
                )
            }
        )
        for run in shuffled
    ]
    first, second = build(request, runs), build(request, slower)
    assert first.tables[0].model_dump_json() == second.tables[0].model_dump_json()
    assert first.tables[1] != second.tables[1]
    assert first.inputs != second.inputs
    assert first == build(request, shuffled)


def test_report_json_is_the_report(quickstart):
    report = build(*quickstart(9))
    assert Report.model_validate_json(report.model_dump_json()) == report
