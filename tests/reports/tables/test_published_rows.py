"""Printed figures: read as they stand, shown as printed, never mixed with ours."""

import pytest
import yaml

from lightning_bench.bench.study.study import Entry
from lightning_bench.reports.build import build
from lightning_bench.reports.render import csv_and_parquet, html, latex, markdown
from lightning_bench.reports.request import PublishedRow
from lightning_bench.reports.tables import published_pages


@pytest.mark.parametrize("name", published_pages.names())
def test_every_page_is_read_whole(name):
    page = yaml.safe_load((published_pages.FOLDER / f"{name}.yaml").read_text())
    table = published_pages.load(name)
    groups = page.get("groups", {"": page.get("rows")})
    lines = [
        (group, *line)
        for group, found in groups.items()
        for line in (
            found.items() if isinstance(found, dict) else [(head, rest) for head, *rest in found]
        )
    ]
    assert [(row.group, row.label.partition(", ")[0]) for row in table.rows] == [
        (group, label.partition(", ")[0]) for group, label, _ in lines
    ]
    assert len({row.label for row in table.rows}) == len(table.rows)
    for row, (_, _, values) in zip(table.rows, lines, strict=True):
        assert [row.values.get(column) for column in table.columns] == [
            None if value is None else str(value) for value in values
        ]
    assert table.source.startswith(("FCN, Table", "VIT"))


def test_a_row_of_the_wrong_length_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x.yaml").write_text("source: s\ntitle: t\ncolumns: [a, b]\nrows:\n  r: [1]\n")
    monkeypatch.setattr(published_pages, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="1 values for 2 columns"):
        published_pages.load("x")


@pytest.mark.parametrize(
    ("text", "value", "spread"),
    [
        ("97.7", 97.7, None),
        ("99.50 ± 0.06", 99.5, 0.06),
        ("88.4/88.5", None, None),
        ("60", 60, None),
    ],
)
def test_printed_values(text, value, spread):
    found = published_pages.read(text)
    assert (found.text, found.value, found.spread) == (text, value, spread)


def test_rows_carry_source_and_remarks():
    rows = published_pages.rows(
        "vision-from-scratch", {"cifar10_top1": "cifar10/accuracy", "params_m": "parameters"}
    )
    by_label = {row.label: row for row in rows}
    mixer = by_label["our Mixer"]
    assert (mixer.group, mixer.cite) == ("MLP", "FCN, Table 5")
    assert mixer.cells["cifar10/accuracy"].value == 82.3
    assert mixer.cells["parameters"].value == 86e6
    assert "no count of the P=4" in mixer.remarks["parameters"]
    assert "is ViT-B's count" in by_label["our gMLP"].remarks["parameters"]
    assert "EfficientNet-B7" not in by_label  # prints ImageNet alone
    with pytest.raises(ValueError, match="no printed column 'cifar11'"):
        published_pages.rows("vision-from-scratch", {"cifar11": "cifar10/accuracy"})


def test_rows_of_one_label_are_told_apart():
    labels = [row.label for row in published_pages.load("masked-lm-depth").rows]
    assert labels[:3] == ["BERT, 6 layers", "gMLP, 18 layers", "BERT, 12 layers"]
    assert "ViT-B/16, from scratch" in [
        row.label for row in published_pages.load("mixer-finetuning").rows
    ]


def test_a_table_of_facts_keeps_rows_of_counts_alone():
    rows = published_pages.rows("mixer-specifications", {"params_m": "parameters"})
    assert [row.label for row in rows][:2] == ["S/32", "S/16"]
    assert rows[5].remarks["parameters"].startswith("The print counts without")


@pytest.fixture
def beside(make):
    """Our Mixer and our ViT on two data sets, with printed rows beside them."""
    labels = {"Mixer": "our Mixer", "ViT": ""}
    datasets = ["cifar10", "pets"]
    runs = [
        make.run(entry, dataset, seed, value + 0.002 * seed)
        for dataset in datasets
        for entry, value in {"Mixer": 0.83, "ViT": 0.91}.items()
        for seed in range(3)
    ]
    columns = {"cifar10_top1": "cifar10/accuracy", "pets_top1": "pets/accuracy"}
    request = make.request(
        list(labels),
        datasets,
        entries={
            label: Entry(model="m", group="MLP" if theirs else "Transformers", published=theirs)
            for label, theirs in labels.items()
        },
        published=published_pages.rows("vision-from-scratch", columns | {"params_m": "parameters"}),
    )
    return request, runs


def test_published_rows_stand_in_their_groups_and_are_no_results(beside):
    request, runs = beside
    report = build(request, runs)
    rows = report.tables[0].rows
    assert [row.label for row in rows[:4]] == ["Mixer", "our Mixer", "our gMLP", "ViT"]
    assert [row.group for row in rows] == sorted(
        [row.group for row in rows],
        key=["MLP", "Transformers", "Convolutional neural networks"].index,
    )
    ours, theirs = rows[0], rows[1]
    assert (ours.source, theirs.source, theirs.cite) == ("measured", "published", "FCN, Table 5")
    cell = theirs.cells[0]
    assert (cell.value, cell.printed, cell.n, cell.runs, cell.best) == (0.823, "82.3", 0, [], False)
    alone = build(request.model_copy(update={"published": []}), runs)
    assert report.comparisons == alone.comparisons
    assert rows[0].cells[:-1] == alone.tables[0].rows[0].cells  # the last is the audit's
    (across,) = (table for table in report.tables if table.id == "across")
    assert {row.label for row in across.rows} == {"Mixer", "ViT"}


def test_the_difference_has_our_interval_alone(beside):
    report = build(*beside)
    (table,) = [table for table in report.tables if table.id == "against"]
    (row,) = table.rows
    ours = report.tables[0].rows[0].cells[0]
    cell = row.cells[0]
    assert cell.value == pytest.approx(0.832 - 0.823)
    assert cell.high - cell.low == pytest.approx(ours.high - ours.low)
    assert "Mixer: our Mixer in FCN, Table 5" in table.notes[0].text


def test_the_audit_holds_printed_counts_against_our_modules(make, beside):
    request, runs = beside
    table = build(request, runs).tables[0]
    assert table.columns[-1].id == "audit"
    cells = {row.label: row.cells[-1] for row in table.rows}
    # The made-up records count 61,706 parameters where 86 million are printed.
    assert cells["our Mixer"].value == pytest.approx(86e6 / 61_706)
    (note,) = [note.text for note in table.notes if note.mark in cells["our Mixer"].notes]
    assert note == "FCN, Table 5 prints 86,000,000 parameters; our module has 61,706"
    assert (cells["our gMLP"].value, cells["our gMLP"].state) == (None, "doubtful")
    assert (cells["ViT"].value, cells["ViT"].state) == (None, "")
    alone = {
        label: entry.model_copy(update={"published": ""})
        for label, entry in request.entries.items()
    }
    table = build(make.change(request, entries=alone), runs).tables[0]
    assert {r.label: r.cells[-1].state for r in table.rows}["our Mixer"] == "doubtful"


def test_without_a_doubt_there_is_no_audit(make):
    row = PublishedRow(label="x", cite="c", cells={"parameters": published_pages.read("61.7", 1e3)})
    request, runs = make.study({"a": [0.9]})
    entries = {"a": Entry(model="m", published="x")}
    request = make.change(request, entries=entries, published=[row])
    assert build(request, runs).tables[0].columns[-1].id == "parameters"


def test_pages_mark_what_is_published_and_print_it_as_it_was(beside):
    request, runs = beside
    report = build(request, runs)
    text = markdown.render(report, runs)
    assert "| our Mixer (published, FCN, Table 5) | 82.3 | 79.4 | 86<sup>" in text
    assert "| Mixer | +0.90\u00a0±\u00a00.50 |" in text
    assert "our Mixer (published, FCN, Table 5) & 82.3 & 79.4" in latex.render(report, runs)
    page = html.render(report, runs)
    assert '<tr class="published"><th scope="row">our Mixer <small>published, FCN, Table 5' in page
    assert "our Mixer" not in csv_and_parquet.csv_text(csv_and_parquet.rows(report, runs))
