"""Throughput and core-days beside the print: both units, no quotient, whose pre-training it is."""

from lightning_bench.reports.build import build
from lightning_bench.reports.request import PrintedValue, PublishedRow
from lightning_bench.reports.tables import published_pages


def printed(label: str, **cells: str) -> PublishedRow:
    return PublishedRow(
        label=label,
        cite="Doc, Table 2",
        cells={k: published_pages.read(v) for k, v in cells.items()},
    )


def test_core_days_of_all_runs_stand_beside_the_printed(make) -> None:
    entries = {
        "Mixer": {"model": "mixer", "published": "Mixer-L/16"},
        "ViT": {"model": "vit", "weights": "timm/vit", "published": "ViT-L/16"},
    }
    published = [
        printed("Mixer-L/16", throughput="105", core_days="410"),
        printed("ViT-L/16", throughput="32", core_days="180"),
        printed("ViT-H/14", throughput="15", core_days="2300"),
    ]
    runs = [make.run(label, "digits", seed, 0.9) for label in entries for seed in (0, 1)]
    request = make.request(list(entries), entries=entries, published=published, seeds=[0, 1])
    report = build(request, runs)
    (table,) = [table for table in report.tables if table.id == "printed-costs"]
    assert [column.unit for column in table.columns] == [
        "examples/s", "images/s/core", "core-days", "TPUv3 days",
    ]  # fmt: skip
    rows = {row.label: row for row in table.rows}
    spent = sum(run.record.cost.device_h for run in runs[:2]) / 24
    assert rows["Mixer"].cells[2].value == spent
    assert [cell.printed for cell in rows["Mixer"].cells] == ["", "105", "", "410"]
    assert rows["Mixer"].cells[0].state == "not measured"
    assert rows["ViT-H/14"].source == "published"
    (note,) = [note for note in table.notes if note.mark]
    assert "published weights" in note.text
    assert rows["ViT"].cells[2].notes == [note.mark]


def test_there_is_none_where_nothing_of_the_kind_is_printed(make) -> None:
    published = [PublishedRow(label="A", cite="c", cells={"parameters": PrintedValue(text="1")})]
    report = build(make.request(["mlp"], published=published), [])
    assert not [table for table in report.tables if table.id == "printed-costs"]


def test_the_pages_of_the_documents_map_their_printed_costs() -> None:
    from lightning_bench.bench.study.load import load

    rows = published_pages.for_study(load("pretrained-transfer", "full"))
    by_label = {row.label: row for row in rows}
    assert by_label["Mixer-L/16"].cells["throughput"].value == 105
    assert by_label["NFNet-F4+"].cells["core_days"].value == 1860
    assert (
        published_pages.for_study(load("vit-transfer", "full"))[0].cells["core_days"].value == 2500
    )
