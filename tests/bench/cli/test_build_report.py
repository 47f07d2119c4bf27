"""From a store to a report's runs: what came before a result, and what a report is given."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_bench.bench.cli import build_report
from lightning_bench.bench.cli.app import run as run_command_line
from lightning_bench.bench.cli.options import make_plan
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.measure import contenders
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.load import load
from lightning_bench.models.registry import catalogue as model_catalogue
from lightning_bench.reports.render.write import FORMATS, TRACKED, Format
from lightning_bench.reports.tables import published_pages, scaling
from tests.factory import COST, failure, record, study_page, with_provenance

PAGE = study_page()


def test_earlier_attempts_are_told_with_cause_log_and_time(page, tmp_path: Path) -> None:
    study, store = load(page(PAGE)), Store(tmp_path / "store")
    mlp, lenet = (run.spec for run in study.runs())
    with store.claim(mlp, 1):
        pass
    cause = failure("data", "no such file", "runs/x/log.txt")
    with store.claim(mlp, 2) as folder:
        store.write_record(folder, record(mlp, 2, cause))
    with store.claim(mlp, 3) as folder:
        store.write_record(folder, record(mlp, 3))
    with store.claim(lenet, 1) as folder:
        (folder / "record.json").write_text("no record")
    report = build_report.make(make_plan(study, store), store, tmp_path / "report", ["md"])
    ours = f"runs/{mlp.key}"
    assert [
        (lost.entry, lost.attempt.number, lost.attempt.end, lost.attempt.cause, lost.attempt.log)
        for lost in report.lost
    ] == [
        ("A", 1, "interrupted", "ended without a record", f"{ours}.1/log.txt"),
        ("A", 2, "failed", "data: no such file", "runs/x/log.txt"),
        ("B", 1, "damaged", "its record is damaged: not a record", f"runs/{lenet.key}.1/log.txt"),
    ]
    assert [lost.attempt.device_h for lost in report.lost] == [None, COST.device_h, None]


def test_garbage_is_collected_again_after_planning(page, tmp_path: Path) -> None:
    study, store = load(page(PAGE)), Store(tmp_path / "store")
    make_plan(study, store)
    assert gc.isenabled()
    with pytest.raises(UserError):
        make_plan(study, Store(Path("/dev/null")))
    assert gc.isenabled()


def test_an_attempt_that_runs_is_not_lost(page, tmp_path: Path) -> None:
    study, store = load(page(PAGE)), Store(tmp_path / "store")
    with store.claim(study.runs()[0].spec, 1):
        report = build_report.make(make_plan(study, store), store, tmp_path / "report", ["md"])
    assert report.lost == []
    assert report.runs == {"running": 1, "missing": 1}


def test_a_report_is_current_for_the_files_that_are_there(page, tmp_path: Path) -> None:
    """Each page is made with its own figures; what a tracker wants is more than all of them."""
    study, store = load(page(PAGE)), Store(tmp_path / "store")
    for number, run in enumerate(study.runs(), start=1):
        today = dict(source_digests.of_run(run.spec))
        cost = COST.model_copy(update={"parameters": number * 10_000})  # which a figure shows
        with store.claim(run.spec, 1) as folder:
            made = record(run.spec, cost=cost)
            store.write_record(folder, with_provenance(made, sources=today))
    plan, target, shown = make_plan(study, store), tmp_path / "report", []

    def make(*formats: Format) -> int:
        """When report.json was written, last of all."""
        build_report.make(plan, store, target, formats, show=shown.append)
        return (target / "report.json").stat().st_mtime_ns

    for format_ in FORMATS:
        moment = make(format_)
    assert make(*FORMATS) == moment
    assert make(*TRACKED) > moment
    assert list(target.glob("figures/*.png"))
    assert len(shown) == len(FORMATS) + 2


OWN = """\
source: Mine, 2026
columns: [digits/accuracy, parameters]
rows:
  Old MLP: [91.5, 1000]
"""


def test_against_published_none_or_a_page_of_ones_own(page, tmp_path: Path) -> None:
    text = PAGE + "published: {vision-from-scratch: {cifar10_top1: digits/accuracy}}\n"
    study = load(page(text))
    printed = [row.label for row in published_pages.for_study(study)]
    assert "our Mixer" in printed
    assert [row.label for row in published_pages.for_study(study, "published")] == printed
    assert published_pages.for_study(study, "none") == []
    own = page(OWN, "own.yaml")
    rows = published_pages.for_study(study, own)
    assert [row.label for row in rows] == [*printed, "Old MLP"]
    assert (rows[-1].cite, rows[-1].cells["digits/accuracy"].value) == ("Mine, 2026", 91.5)
    store = Store(tmp_path / "store")
    report = build_report.make(
        make_plan(study, store), store, tmp_path / "report", ["md"], against=own
    )
    assert "Old MLP" in {row.label for row in report.tables[0].rows if row.source == "published"}


@pytest.mark.parametrize(
    ("against", "says"),
    [
        ("published", "names no printed table; --against PATH reads one of yours"),
        ("publisht", "--against publisht: No such file or directory; it takes published, none"),
        ("a: [", "--against own.yaml: while parsing"),
        (
            "source: s",
            "--against own.yaml: a printed table has source, columns, and rows or groups",
        ),
        ("source: s\ncolumns: [x]\nrows: {a: [1]}", "no column is one of digits/accuracy"),
        ("source: s\ncolumns: [digits/accuracy]\nrows: {a: [1, 2]}", "2 values for 1 columns"),
    ],
)
def test_a_wrong_against_is_told_in_a_line(page, against: str, says: str) -> None:
    study = load(page(PAGE))
    path = page(against, "own.yaml") if ":" in against else against
    with pytest.raises(UserError, match=r"^[^\n]+$") as caught:
        published_pages.for_study(study, path)
    assert says in str(caught.value)


def test_models_of_the_registry_have_their_family_and_depth(page) -> None:
    known = {
        "gmlp-text-36": ("gmlp-text", 36),
        "bert-24": ("bert", 24),
        "bert": ("bert", 12),
        "resnet-56": ("resnet", 56),
        "resnet-small": ("resnet", 20),
        "vit-b16": ("vit", None),
        "mixer": ("mixer", 8),
        "lenet": ("lenet", None),
    }
    models = {name: {"model": name} for name in known}
    models["shallow"] = {"model": "mixer", "args": {"depth": 3}}
    both = {"data": ["digits", "polarity"], "entries": models}
    study = load(page(study_page(**both)))
    facts = {label: build_report.model_facts(entry) for label, entry in study.resolved.items()}
    assert facts.pop("shallow").depth == 3
    assert {name: (fact.family, fact.depth) for name, fact in facts.items()} == known


def test_reports_and_measurements_have_every_model_in_one_family(page) -> None:
    """And the exponent that is claimed of it is that of its architecture, told by its module."""
    claims = {"bert": 2, "gmlp": 2, "gmlp_text": 2, "mixer": 1, "transformer_text": 2, "vit": 2}
    models = model_catalogue.entries()
    entries = {name: {"model": name} for name in models}
    study = load(page(study_page(data=["digits", "polarity"], entries=entries)))
    measured = {label: c.family for (label, _), c in contenders.contenders(study.runs()).items()}
    reported = {
        label: build_report.model_facts(entry).family for label, entry in study.resolved.items()
    }
    assert len(models) == 75
    assert measured == reported == {name: model.family for name, model in models.items()}
    for name, model in models.items():
        module = model.module.rpartition(".")[2]
        assert scaling.claimed(reported[name], "S") == claims.get(module), name


def test_comparing_two_entries_writes_nothing(page, tmp_path: Path, capsys) -> None:
    path = page(study_page(seeds=2))
    study, store = load(path), Store(tmp_path / "store")
    for run in study.runs():
        today = dict(source_digests.of_run(run.spec))
        with store.claim(run.spec, 1) as folder:
            store.write_record(folder, with_provenance(record(run.spec), sources=today))

    def kept() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in store.root.rglob("*") if file.is_file()}

    before = kept()
    assert run_command_line(["compare", path, "A", "B", "--store", str(store.root)]) == 0
    assert "paired over 2 seeds" in capsys.readouterr().out
    assert kept() == before


def test_what_an_application_does_at_its_exit_is_done_after_a_report_too(page, tmp_path) -> None:
    path, store = page(PAGE), Store(tmp_path / "store")
    for run in load(path).runs():
        with store.claim(run.spec, 1) as folder:
            store.write_record(folder, record(run.spec))
    host = (
        "import atexit; from lightning_bench.bench.cli import main; atexit.register(print, 'bye')"
    )
    command = [sys.executable, "-c", f"{host}; main()", "report", path, "--format", "json"]
    ended = subprocess.run(
        [*command, "--store", str(store.root)], capture_output=True, text=True, check=True
    )
    assert ended.stdout.endswith("report.json\nbye\n")
