"""The report as numbers: what is in the tables, what is explained, what is claimed."""

import random
import subprocess
import sys

import pytest

from lightning_bench.bench.study.study import Entry
from lightning_bench.reports.build import build
from lightning_bench.reports.inputs_digest import inputs
from lightning_bench.reports.report import Report
from lightning_bench.reports.text import provenance_lines


def cell(report, entry, column):
    table = report.tables[0]
    place = [found.id for found in table.columns].index(column)
    return next(row.cells[place] for row in table.rows if row.label == entry)


def notes(report, found):
    return [note.text for note in report.tables[0].notes if note.mark in found.notes]


def with_record(run, **changes):
    return run.model_copy(update={"record": run.record.model_copy(update=changes)})


def test_main_table_is_the_same_bits_for_the_same_metrics_in_any_order(quickstart):
    request, runs = quickstart(5)
    shuffled = random.Random(0).sample(runs, len(runs))
    slower = [
        with_record(
            run,
            ended="2026-12-24T00:00:00Z",
            cost=run.record.cost.model_copy(update={"train_s": 99.0, "peak_memory_bytes": 7}),
            provenance=run.record.provenance.model_copy(update={"host": "elsewhere"}),
        )
        for run in shuffled
    ]
    first, second = build(request, runs), build(request, slower)
    assert first.tables[0].model_dump_json() == second.tables[0].model_dump_json()
    assert first.tables[1] != second.tables[1]
    assert first.inputs != second.inputs
    assert first == build(request, shuffled)


def test_report_json_is_the_report(quickstart, rough):
    for request, runs in (quickstart(9), rough):
        report = build(request, runs)
        assert Report.model_validate_json(report.model_dump_json()) == report


def test_a_cell_has_the_statistics_of_its_runs(make):
    request, runs = make.study({"a": [0.90, 0.92, 0.94], "b": [0.5, 0.5, 0.5]})
    report = build(request, runs)
    found = cell(report, "a", "digits/accuracy")
    assert found.value == pytest.approx(0.92)
    assert found.sd == pytest.approx(0.02)
    # t(0.975, 2) = 4.302653
    assert found.high - found.value == pytest.approx(4.302653 * 0.02 / 3**0.5)
    assert (found.n, found.runs) == (3, [run.key for run in runs if run.entry == "a"])
    assert cell(report, "b", "digits/accuracy").sd == 0
    assert cell(report, "a", "parameters").value == 61_706


def test_one_run_has_no_spread(make):
    report = build(*make.study({"a": [0.9], "b": [0.8]}))
    found = cell(report, "a", "digits/accuracy")
    assert (found.value, found.sd, found.low, found.high) == (0.9, None, None, None)
    assert not found.best


def test_five_seeds_bold_nobody_and_say_why(quickstart):
    report = build(*quickstart(5))
    assert not any(found.best for row in report.tables[0].rows for found in row.cells)
    assert not report.tables[0].columns[0].ranked
    why, by_welch = report.findings
    assert by_welch.startswith("By Welch's t, corrected by Holm over 10 pairs")
    for word in ("5 paired seeds", "2/32", "0.0625", "at least 6 seeds"):
        assert word in why


def test_the_whole_top_tie_group_is_bold(make):
    request, runs = make.study(make.scores({"a": 0.8, "b": 0.95, "c": 0.951, "d": 0.9}, 10))
    report = build(request, runs)
    best = {row.label for row in report.tables[0].rows if row.cells[0].best}
    assert best == {"b", "c"}
    (finding,) = report.findings
    assert "is better than a and d" in finding
    assert "can't be told from" in finding
    assert "80 % power" in finding


def test_only_the_first_metric_is_ranked(make):
    request, runs = make.study(make.scores({"a": 0.8, "b": 0.95}, 10))
    request = request.model_copy(update={"metrics": {"digits": ["accuracy", "loss"]}})
    runs = [with_record(run, metrics={**run.record.metrics, "loss": 0.4}) for run in runs]
    report = build(request, runs)
    accuracy, loss, _ = report.tables[0].columns
    assert (accuracy.ranked, loss.ranked) == (True, False)
    assert (accuracy.unit, accuracy.scale, accuracy.higher_is_better) == ("%", 100, True)
    assert (loss.unit, loss.scale, loss.higher_is_better) == ("", 1, False)
    assert not any(row.cells[1].best for row in report.tables[0].rows)


def test_what_went_wrong_is_shown_and_explained(rough):
    report = build(*rough)
    resnet = cell(report, "ResNet-152", "digits/accuracy")
    assert resnet.n == 9
    assert notes(report, resnet) == [
        "9 of 10 runs: seed 3 failed (divergence: loss is NaN at step 40)"
    ]
    diverged = cell(report, "ResNet-152", "cifar_10/accuracy")
    assert (diverged.value, diverged.state, diverged.n) == (None, "diverged", 0)
    assert len(diverged.runs) == 10
    running = cell(report, "NFNet-F4+", "cifar_10/accuracy")
    assert notes(report, running) == ["8 of 10 runs: seeds 8–9 running (epoch 3 of 10)"]
    assert cell(report, "NFNet-F4+", "cifar-100/accuracy").state == "missing"
    stale = cell(report, "ViT-B/16", "cifar-100/accuracy")
    assert notes(report, stale) == ["9 of 10 runs: seed 0 stale (models/vit.py changed since)"]
    no_number = cell(report, "ViT-B/16", "flowers/accuracy")
    assert notes(report, no_number) == ["9 of 10 runs: seed 2 has no finite accuracy"]
    assert report.runs == {"done": 317, "running": 2, "missing": 19, "stale": 1, "failed": 11}
    assert not report.complete
    assert report.findings[0].startswith("Provisional: 317 of 350")


def test_a_failing_entry_is_not_ranked_and_a_note_says_so(make):
    request, runs = make.study(make.scores({"a": 0.8, "b": 0.95, "c": 0.99}, 10))
    runs[-1] = runs[-1].model_copy(update={"state": "failed", "record": None})
    report = build(request, runs)
    found = cell(report, "c", "digits/accuracy")
    assert not found.best
    assert "not ranked: not every run gave a result" in notes(report, found)
    assert "Not ranked: c (not every run gave a result)." in report.findings[1]


def test_groups_stay_together_in_the_order_of_the_page(make):
    request, runs = make.study({"a": [0.9], "b": [0.8], "c": [0.7]})
    groups = {"a": "one", "b": "two", "c": "one"}
    entries = {label: Entry(group=group, model="m") for label, group in groups.items()}
    report = build(make.change(request, entries=entries), runs)
    assert [row.label for row in report.tables[0].rows] == ["a", "c", "b"]


def test_parameters_that_differ_between_data_sets_are_a_range_with_a_note(make):
    request = make.request(["a"], ["digits", "pets"])
    small, large = make.run("a", "digits", 0, 0.9), make.run("a", "pets", 0, 0.8)
    cost = large.record.cost.model_copy(update={"parameters": 1_234_567})
    report = build(request, [small, with_record(large, cost=cost)])
    found = cell(report, "a", "parameters")
    assert (found.low, found.high) == (61_706, 1_234_567)
    assert notes(report, found) == ["parameters: 61,706 on digits, 1,234,567 on pets"]
    assert report.tables[0].columns[-1].unit == "M"


def test_an_average_is_taken_over_data_sets_for_each_seed(make):
    scores = {"digits": [0.90, 0.92, 0.97], "pets": [0.80, 0.78, 0.70]}
    runs = [make.run("a", name, s, x) for name, xs in scores.items() for s, x in enumerate(xs)]
    request = make.request(["a"], scores, averages={"Avg 2": ["digits", "pets"]})
    report = build(request, runs)
    found = cell(report, "a", "average/Avg 2")
    # The means over data sets are 0.85, 0.85, 0.835: the data sets' spreads cancel.
    assert found.value == pytest.approx((0.85 + 0.85 + 0.835) / 3)
    assert found.sd == pytest.approx(0.015 / 3**0.5)
    assert (found.n, found.notes, len(found.runs)) == (3, [], 6)
    partial = cell(build(request, runs[:-1]), "a", "average/Avg 2")
    assert partial.n == 2
    report = build(request, runs[:-1])
    assert "seeds with a result on all 2 data sets: 0–1 only" in notes(report, partial)
    nothing = build(request, runs[:3])
    assert cell(nothing, "a", "average/Avg 2").state == "incomplete"


def test_an_average_over_different_metrics_is_refused(make):
    with pytest.raises(ValueError, match="one primary metric"):
        make.request(["a"], ["digits"], averages={"Avg": ["digits", "pets"]})


def test_costs_count_failed_runs_and_flag_noise(make):
    request, runs = make.study({"a": [0.9, 0.9, 0.9]})
    costs = [run.record.cost for run in runs]
    runs[0] = with_record(runs[0], cost=costs[0].model_copy(update={"train_examples_per_s": 1e4}))
    runs[2] = runs[2].model_copy(update={"state": "failed"})
    table = build(request, runs).tables[1]
    (row,) = table.rows
    by_id = dict(zip([column.id for column in table.columns], row.cells, strict=True))
    assert by_id["train"].n == 2
    assert by_id["device"].value == pytest.approx(3 * 3.0 / 3600)
    assert [note.text for note in table.notes if note.mark in by_id["speed"].notes] == [
        "noisy: the SD is over 10 % of the mean"
    ]


def test_speeds_of_different_settings_come_with_a_warning(make):
    request, runs = make.study({"a": [0.9], "b": [0.9]})
    two = runs[1].record.provenance.model_copy(update={"threads": 2})
    report = build(request, [runs[0], with_record(runs[1], provenance=two)])
    assert "runs differ in thread counts" in report.tables[1].notes[0].text


def test_a_wrong_count_of_test_examples_is_said_first(make):
    request, runs = make.study({"a": [0.9], "b": [0.9]})
    report = build(request, [with_record(runs[0], scored=361), runs[1]])
    assert report.findings[0] == "Wrong count: a on digits scored 361 of 360 test examples."


def test_facts_name_seeds_data_code_and_hardware(quickstart):
    request, runs = quickstart(3)
    facts = {fact.label: fact.text for fact in build(request, runs).facts}
    assert facts["Seeds"].startswith("0–2, the same for every entry")
    assert "1,257 training" in facts["Data, digits"]
    assert "revision aaaaaaaaaaaa" in facts["Code"]
    assert "A CPU, 2 cores, 8 GB; 1 host" in facts["Hardware"]
    assert "torch 2.15.0" in facts["Software"]
    uneven = build(request, [run for run in runs if run.entry != "ViT" or run.seed])
    assert "ViT 1–2" in {fact.label: fact.text for fact in uneven.facts}["Seeds"]


def test_a_run_of_an_unknown_entry_is_an_error(make):
    request, runs = make.study({"a": [0.9]})
    with pytest.raises(KeyError):
        build(request, [*runs, make.run("b", "digits", 0, 0.9)])


def test_digest_changes_with_what_the_report_shows_and_with_nothing_else(make, quickstart):
    request, runs = quickstart(2)
    first = inputs(request, runs)
    assert first == build(request, runs).inputs == inputs(request, runs[::-1])
    others = [
        inputs(make.change(request, title="Another"), runs),
        inputs(request, runs[1:]),
        inputs(request, [runs[0].model_copy(update={"state": "stale"}), *runs[1:]]),
        inputs(request, [with_record(runs[0], metrics={"accuracy": 0.1}), *runs[1:]]),
        inputs(request, [with_record(runs[0], attempt=2), *runs[1:]]),
    ]
    assert len({first, *others}) == 6


def test_reading_and_printing_a_report_needs_nothing_heavy():
    code = (
        "import sys; from lightning_bench.reports import inputs_digest, report;"
        "from lightning_bench.reports.render import terminal;"
        "heavy = {'numpy', 'pandas', 'scipy', 'matplotlib', 'jinja2', 'torch'} & set(sys.modules);"
        "from lightning_bench.reports import build;"
        "from lightning_bench.reports.render import write;"
        "print(heavy | {'torch', 'lightning', 'pytorch_lightning'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_a_leader_without_common_seeds_claims_nothing(make):
    request, runs = make.study(make.scores({"a": 0.9, "b": 0.8}, 16))
    apart = [run for run in runs if (run.entry == "a") == (run.seed < 9) or run.seed in (7, 8)]
    report = build(request, apart)
    assert (
        "On digits (accuracy, these 360 test examples) a has nobody to be compared with."
        in report.findings[-1]
    )
    assert "Not ranked: b (too few seeds in common with a)." in report.findings[-1]


def test_a_claim_names_the_test_examples_that_it_is_of(make):
    request, runs = make.study(make.scores({"a": 0.8, "b": 0.95}, 6))
    (scored,) = {run.record.scored for run in runs}
    (finding,) = build(request, runs).findings
    assert finding.startswith(f"On digits (accuracy, these {scored:,} test examples) b is better")


def test_a_row_that_stands_for_another_network_says_so(make) -> None:
    request, runs = make.study({"mlp": [0.5, 0.6], "lenet": [0.5, 0.6]})
    entries = {
        label: entry.model_copy(update={"stands_for": "HaloNet" if label == "mlp" else ""})
        for label, entry in request.entries.items()
    }
    request = make.change(request, entries=entries)
    main = build(request, runs).tables[0]
    (note,) = [note for note in main.notes if note.text.startswith("stands for HaloNet")]
    marked = {row.label for row in main.rows if note.mark in row.cells[0].notes}
    assert marked == {"mlp"}
    assert provenance_lines.departures(request.study)[0].startswith("mlp stands for HaloNet")
