"""Looks on the command line: runs that stop by themselves, the ledger, and what a plan can show."""

import json
import os
import signal
from pathlib import Path

import pytest

from lightning_bench.bench.cli.app import run
from lightning_bench.bench.cli.looks import this_look
from lightning_bench.bench.plan import plan, source_digests
from lightning_bench.bench.store.look_ledger import LookTaken
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.load import load
from tests.commands import bench, start, wait_for
from tests.factory import record, study_page, with_provenance

#: Trained for an epoch, 44 % of digits are told by the first and 12 % by the other.
WIDE, NARROW = ({"model": "mlp", "args": {"depth": 1, "width": width}} for width in (32, 1))
DIFFERENT = {"Wide": WIDE, "Narrow": NARROW}
ALIKE = {"One": NARROW, "Other": NARROW}  # they share their runs
SMALL = {"recipe": {"epochs": 1}}


def looks_taken(folder: Path) -> list[dict]:
    ledger = folder / "bench-store" / "looks.jsonl"
    text = ledger.read_text(encoding="utf-8") if ledger.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.slow
def test_a_study_stops_by_itself_at_the_look_that_decides_it(tmp_path: Path) -> None:
    page = study_page(entries=DIFFERENT, seeds={"looks": [6, 9]}, **SMALL)
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    done = bench("run", "page.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Wide is better than Narrow" in " ".join(done.stdout.split())
    assert "page (smoke): the comparison is decided at 6 seeds; the other 3 seeds (about" in (
        done.stdout
    )
    assert len(list((tmp_path / "bench-store" / "runs").iterdir())) == 12
    (look,) = looks_taken(tmp_path)
    assert (look["n"], look["alpha"], look["undecided"]) == (6, 0.03125, 0)
    assert [(c["a"], c["b"]) for c in look["claimed"]] == [("Wide", "Narrow")]
    again = bench("run", "page.yaml", cwd=tmp_path)
    assert again.returncode == 0
    assert "are not needed" in again.stdout
    assert len(list((tmp_path / "bench-store" / "runs").iterdir())) == 12
    assert looks_taken(tmp_path) == [look]


@pytest.mark.slow
def test_alike_entries_go_to_the_last_look_though_killed_between(tmp_path: Path) -> None:
    page = study_page(entries=ALIKE, seeds={"looks": [6, 8]}, **SMALL)
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    process = start("run", "page.yaml", cwd=tmp_path)
    wait_for(lambda: looks_taken(tmp_path), "the first look")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    (first,) = looks_taken(tmp_path)
    assert first["n"] == 6
    done = bench("run", "page.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 comparison undecided at the last look, 8 seeds" in done.stdout
    assert len({p.name.split(".")[0] for p in (tmp_path / "bench-store/runs").iterdir()}) == 8
    assert looks_taken(tmp_path)[0] == first
    assert [look["n"] for look in looks_taken(tmp_path)] == [6, 8]
    assert [look["undecided"] for look in looks_taken(tmp_path)] == [1, 1]


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write a page, and records of its first seeds in which Wide is so much better."""
    monkeypatch.chdir(tmp_path)

    def fill(recorded: int, better: float = 0.1, page: str = "", **changes) -> Path:
        path = tmp_path / "page.yaml"
        changes = {"entries": DIFFERENT, "seeds": 6, **changes}
        path.write_text(page or study_page(**changes), encoding="utf-8")
        store = Store(tmp_path / "bench-store")
        every = load(str(path), settings=[f"seeds={recorded}"])
        for each in every.runs():
            if store.newest(each.spec.key):
                continue
            value = 0.8 + 0.001 * (each.spec.seed % 3) + better * (each.entry == "Wide")
            made = record(each.spec, metrics={"accuracy": value})
            today = dict(source_digests.of_run(each.spec))
            with store.claim(each.spec, 1) as folder:
                store.write_record(folder, with_provenance(made, sources=today))
        return path

    return fill


def report(*words: str) -> dict:
    assert run(["report", "page.yaml", "--format", "json", *words]) == 0
    newest = max(Path("bench-store/reports").glob("*/report.json"), key=lambda p: p.stat().st_mtime)
    return json.loads(newest.read_text(encoding="utf-8"))


def test_a_second_look_without_a_plan_claims_nothing_new(filled, tmp_path: Path) -> None:
    filled(6, better=0.0)
    assert report()["comparisons"][0]["verdict"] == "undecided"
    (first,) = looks_taken(tmp_path)
    assert (first["n"], first["alpha"], first["method"]) == (6, 0.05, "max-T")
    filled(20, better=0.1)  # the new seeds differ, which 20 seeds would show
    second = report("--set", "seeds=20")
    assert second["comparisons"][0]["p"] < 0.01
    assert second["comparisons"][0]["verdict"] == "undecided"
    assert any(line.startswith("A second look; alpha left: 0.") for line in second["findings"])
    assert looks_taken(tmp_path) == [first]  # it spent nothing
    (tmp_path / "bench-store" / "looks.jsonl").unlink()
    forgotten = report("--set", "seeds=20")
    assert forgotten["comparisons"][0]["verdict"] == "better"
    (known,) = (f["text"] for f in forgotten["facts"] if f["label"] == "Looks")
    assert "knows of none before this one" in known
    assert "in a ledger that was deleted, it can't know" in known


def test_what_a_look_claimed_stands_at_a_second_one(filled) -> None:
    filled(6)
    assert report()["comparisons"][0]["verdict"] == "better"
    filled(9, better=-0.1)
    second = report("--set", "seeds=9")
    (pair,) = second["comparisons"]
    assert (pair["verdict"], pair["decided_at"]) == ("better", 6)
    assert any("Wide is better than Narrow (p = 0.031 at 6 seeds)" in f for f in second["findings"])


def test_claims_changed_after_a_look_are_traced(filled, tmp_path: Path) -> None:
    filled(6)
    report()
    filled(6, claims=["Wide > Narrow"])
    changed = report()
    assert any("chosen with results in sight" in line for line in changed["findings"])
    families = {look["family"] for look in looks_taken(tmp_path)}
    assert len(families) == 1
    (tmp_path / "bench-store" / "looks.jsonl").unlink()
    named = report()
    assert named["comparisons"][0]["verdict"] == "better"
    assert {look["family"] for look in looks_taken(tmp_path)}.isdisjoint(families)


def test_comparing_two_entries_is_a_look_too(filled, tmp_path: Path, capsys) -> None:
    filled(6)
    assert run(["compare", "page.yaml", "Wide", "Narrow"]) == 0
    assert "Wide is better than Narrow" in capsys.readouterr().out
    assert [look["n"] for look in looks_taken(tmp_path)] == [6]


def test_a_report_of_a_look_that_is_not_over_is_none(filled, tmp_path: Path) -> None:
    filled(7, seeds={"looks": [6, 9]})
    found = report()
    assert any("No claim between looks: look 2 of 2 is at 9 seeds" in f for f in found["findings"])
    assert found["comparisons"][0]["decided_at"] == 6  # of the first, whose runs are all there
    assert looks_taken(tmp_path) == []


def test_a_plan_and_a_description_tell_claims_and_looks(filled, capsys) -> None:
    filled(6, seeds={"looks": [6, 9]}, claims=["Wide > Narrow"])
    capsys.readouterr()
    assert run(["plan", "page.yaml"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "claims: Wide > Narrow" in out
    assert "looks: at seeds 6 (alpha 0.0312), 9 (alpha 0.0187); now 6 seeds" in out
    assert (
        "What 9 seeds can show with 80 % power, 1 comparison tested at once, one-sided, at one of"
        " the looks at 6 and 9 seeds: digits: "
    ) in out
    assert " seeds on average" in out
    assert run(["describe", "page.yaml", "--format", "json"]) == 0
    (facts,) = json.loads(capsys.readouterr().out)
    assert facts["claims"] == ["Wide > Narrow"]
    assert facts["looks"].startswith("at seeds 6 (alpha 0.0312), 9")


def test_a_plan_tells_what_it_can_show_by_the_runs_or_the_pages_guess(filled, capsys) -> None:
    page = filled(1, seeds=8)
    capsys.readouterr()
    assert run(["plan", str(page)]) == 0
    unknown = " ".join(capsys.readouterr().out.split())
    assert "SDs of the paired differences; how large these are is not known before 3 seeds" in (
        unknown
    )
    assert run(["plan", str(page), "--set", "spread=0.5"]) == 0
    guessed = " ".join(capsys.readouterr().out.split())
    assert "(SD of the paired differences 0.71, guessed: √2 × the page's spread of 0.5)" in guessed
    assert run(["plan", str(page), "--set", "spread=0.5", "--set", "seeds=4"]) == 0
    assert "digits: nothing; a claim needs at least 6 seeds" in capsys.readouterr().out


def planned_as_json(page: Path, capsys, *words: str) -> list[dict]:
    capsys.readouterr()
    assert run(["plan", str(page), "--format", "json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_plan_as_data_tells_looks_and_power_beside_each_run(filled, capsys) -> None:
    page = filled(1, seeds={"looks": [6, 9]}, spread=0.5)
    rows = planned_as_json(page, capsys)
    assert {row["seed"] for row in rows} == set(range(6))  # those of the look that it is at
    assert [row["look"] for row in rows] == [{"seeds": 6, "alpha": 0.03125}] * 12
    shown = rows[0]["power"]
    assert (shown["metric"], shown["unit"], shown["comparisons"]) == ("accuracy", "points", 1)
    assert (shown["seeds"], shown["power"], shown["one_sided"]) == (9, 0.8, False)
    assert shown["shows"] == pytest.approx(shown["shows_sds"] * shown["sd"])
    assert 6 < shown["mean_seeds"] < 9
    assert rows[0]["power_of_mean"] is None
    page = filled(1, seeds=8, spread=0.5)
    (row, *_) = planned_as_json(page, capsys, "--detect", "1.5", "--jobs", "1")
    assert row["look"] is None
    assert (row["power"]["detect"], row["power"]["seeds"], row["power"]["runs"]) == (1.5, 6, 12)
    assert row["power"]["expected_s"] > 0
    page = filled(1, seeds=3, data=["digits", "mnist"])
    (row, *_) = planned_as_json(page, capsys)
    assert row["power"]["shows_sds"] is None
    assert row["power_of_mean"]["shows_sds"] > 1


def test_a_wanted_difference_costs_seeds_and_hours(filled, capsys) -> None:
    page = filled(1, seeds=8)
    capsys.readouterr()
    few, many = (
        (run(["plan", str(page), "--set", "spread=0.5", "--detect", wanted, "--jobs", "1"]),
         " ".join(capsys.readouterr().out.split()))
        for wanted in ("1.5", "0.3")
    )  # fmt: skip
    assert (few[0], many[0]) == (0, 0)
    assert "To show a true difference of 1.5 (80 % power, 1 comparison at once)" in few[1]
    assert "digits: 6 seeds (12 runs, about 36 s in all, 1 at a time" in few[1]
    seeds = int(many[1].split("digits: ")[1].split(" seeds")[0])
    assert 40 < seeds < 60  # (1.96 + 0.84)² · (0.71 / 0.3)² = 44 by the normal approximation
    assert run(["plan", str(page), "--detect", "0"]) == 2
    assert "a difference is greater than 0" in capsys.readouterr().err


def test_a_copy_of_the_page_by_another_name_says_that_its_runs_were_looked_at(filled) -> None:
    page = filled(6)
    report()
    page.with_name("copy.yaml").write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    assert run(["report", "copy.yaml", "--format", "json"]) == 0
    made = json.loads(Path("bench-store/reports/copy-smoke/report.json").read_text("utf-8"))
    assert made["comparisons"][0]["verdict"] == "better"
    assert any("compared in another study, too" in line and "page" in line
               for line in made["findings"])  # fmt: skip


def test_more_seeds_than_a_look_needed_are_not_run_to_the_next(filled, tmp_path, capsys) -> None:
    filled(7, seeds={"looks": [6, 9]})  # the seventh seed is another study's
    before = sorted((tmp_path / "bench-store" / "runs").iterdir())
    assert run(["run", "page.yaml"]) == 0
    assert "the comparison is decided at 6 seeds; the other 3 seeds" in capsys.readouterr().out
    assert sorted((tmp_path / "bench-store" / "runs").iterdir()) == before
    assert [look["n"] for look in looks_taken(tmp_path)] == [6]


def test_what_a_look_decided_is_void_once_the_code_has_changed(
    filled, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = filled(6, seeds={"looks": [6, 9]})
    assert report()["comparisons"][0]["verdict"] == "better"
    (before,) = looks_taken(tmp_path)
    assert before["sources"]["digits"].keys() == {"Wide", "Narrow"}
    then = source_digests.of_run
    monkeypatch.setattr(source_digests, "of_run", lambda spec: {**then(spec), "models/mlp.py": "x"})
    stale = report()
    assert stale["runs"] == {"stale": 12}
    assert stale["comparisons"] == []
    (told,) = (line for line in stale["findings"] if "was of other code" in line)
    assert told.endswith("whose code has changed since is void; it is not counted here.")
    # The same look, taken anew by today's code, whose results are the other way.
    for folder in (tmp_path / "bench-store" / "runs").iterdir():
        folder.rename(folder.with_name("." + folder.name))
    filled(6, better=-0.1, page=page.read_text(encoding="utf-8"))
    anew = report()
    assert (anew["comparisons"][0]["verdict"], anew["look"]["alpha"]) == ("worse", 0.03125)
    assert [look["sources"] == before["sources"] for look in looks_taken(tmp_path)] == [True, False]
    # At the next look the first verdict, by this code, stands, and not the one by the other.
    filled(9, better=0.2, page=page.read_text(encoding="utf-8"))
    later = report()
    (pair,) = later["comparisons"]
    assert (pair["verdict"], pair["decided_at"]) == ("worse", 6)


def test_code_that_changed_frees_no_alpha(
    filled, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    page = filled(6)
    report()
    then = source_digests.of_run
    monkeypatch.setattr(source_digests, "of_run", lambda spec: {**then(spec), "models/mlp.py": "x"})
    for folder in (tmp_path / "bench-store" / "runs").iterdir():
        folder.rename(folder.with_name("." + folder.name))
    filled(9, page=page.read_text(encoding="utf-8"))
    second = report("--set", "seeds=9")
    (pair,) = second["comparisons"]
    assert (pair["verdict"], pair["decided_at"]) == ("undecided", None)
    assert any("is void; what it spent stays spent" in line for line in second["findings"])
    assert second["look"]["alpha"] == 0


SEARCHED = {
    "search": {
        "trials": 1, "repeat": 8, "sampler": "random", "pruner": "none",
        "space": {"lr": {"float": [1e-3, 1e-2], "log": True}},
    },
    "seeds": {"looks": [6, 8]},
    "recipe": {"epochs": 1},
}  # fmt: skip


def test_a_look_at_a_repeated_search_has_as_many_searches_as_seeds(tmp_path, capsys) -> None:
    page = tmp_path / "page.yaml"
    page.write_text(study_page(entries=DIFFERENT, **SEARCHED), encoding="utf-8")
    assert run(["plan", str(page), "--store", str(tmp_path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    searches = {row["name"] for row in rows if row["name"].startswith("Wide/")}
    assert searches == {f"Wide/digits/search/{r}" for r in range(6)}


def test_looks_at_a_repeated_search_share_one_alpha_whatever_it_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.yaml").write_text(study_page(entries=DIFFERENT, **SEARCHED), encoding="utf-8")

    def look(chose: float) -> LookTaken:
        study = load("page.yaml").with_seeds(6)
        chosen = {cell.place: {"lr": chose * (1 + (cell.repeat or 0))} for cell in study.cells()}
        planned = plan.make(study, study.runs(chosen), {}, source_digests.of_run)
        assert len({run.key for run in planned.runs}) == 12
        taken = this_look(planned)
        assert taken is not None
        return taken

    first, again = look(1e-3), look(2e-3)
    # Each seed has values of its own; the look is at what was searched.
    assert first.cells == again.cells
    assert again.compares_again(first)
    assert again.family == first.family
    wide, narrow = first.cells["digits"].values()
    assert wide != narrow
