"""A search that is repeated: each with seeds of its own, and one final run with its choice."""

from pathlib import Path
from typing import Any

from lightning_bench.bench.search import chosen_page, ledger
from lightning_bench.bench.store.trial import Ledger
from lightning_bench.bench.study.load import load
from tests.bench.search.test_tuner import Bench
from tests.factory import study_page

SEARCH = {
    "trials": 3,
    "sampler": "random",
    "pruner": "none",
    "space": {"lr": {"float": [1e-4, 1e-1], "log": True}},
}


def repeated(split: str = "fixed", **search: Any) -> str:
    """A page that tunes two entries, six times each where nothing else is said."""
    return study_page(
        data=[{"name": "digits", "split": split}],
        recipe={"epochs": 5, "lr": 3e-3},
        seeds=6,
        search=SEARCH | {"repeat": 6} | search,
    )


def test_each_search_has_a_sampler_and_trial_seeds_of_its_own(page, tmp_path: Path) -> None:
    cells = load(page(repeated())).cells()
    assert len(cells) == 2 * 6
    mine = [cell for cell in cells if cell.entry == "A"]
    assert [cell.search.seed for cell in mine] == list(range(6))
    assert [cell.search.seeds for cell in mine] == [[1_000_000 + r] for r in range(6)]
    assert [cell.final_seed for cell in mine] == list(range(6))
    assert len({cell.folder(tmp_path) for cell in cells}) == 12
    pairs = load(page(repeated(seeds=2))).cells()
    tried = [seed for cell in pairs if cell.entry == "A" for seed in cell.search.seeds]
    assert len(set(tried)) == 12


def test_the_first_search_goes_on_with_what_an_unrepeated_one_has(page, tmp_path: Path) -> None:
    once = load(page(repeated(repeat=None))).cells()
    first = [cell for cell in load(page(repeated())).cells() if cell.repeat == 0]
    assert [cell.folder(tmp_path) for cell in first] == [cell.folder(tmp_path) for cell in once]
    assert [cell.name for cell in first] == [cell.name for cell in once]


def test_a_trial_has_the_split_of_the_final_run_that_it_is_for(page) -> None:
    for cell in load(page(repeated("seed"))).cells():
        trial = cell.spec({"lr": 0.01}, cell.search.seeds[0], tested=False)
        final = cell.spec({"lr": 0.01}, cell.final_seed or 0, tested=True)
        assert trial.seed != final.seed == cell.repeat
        assert trial.seed_of("split") == final.seed_of("split") == cell.repeat
        assert trial.seed_of("order") == trial.seed
        assert final.source_seeds == {}
    fixed = load(page(repeated())).cells()[3]
    assert fixed.spec({"lr": 0.01}, 1_000_001, tested=False).source_seeds == {}
    digests = {cell.digest for cell in load(page(repeated("seed"))).cells()}
    assert not digests & {cell.digest for cell in load(page(repeated())).cells()}


def finished(bench: Bench, until: int | None = None) -> int:
    """Run trials, whose scores are made up of their learning rates, until none is left."""
    done = 0
    while done != until and (planned := bench.tuner.take()):
        bench.run(planned, [0.5, planned.run.spec.recipe.lr])
        done += 1
    return done


def found(bench: Bench) -> list[Ledger]:
    return [folder.ledger() for folder in ledger.search_folders(bench.cells, bench.store.root)]


def outcome(bench: Bench) -> list[Any]:
    return [
        (each.name, each.chosen, [(trial.params, trial.value) for trial in each.trials])
        for each in found(bench)
    ]


def test_killed_in_the_middle_and_gone_on_it_comes_to_the_same(page, tmp_path: Path) -> None:
    whole = Bench(page, tmp_path / "whole", text=repeated())
    assert finished(whole) == 2 * 6 * 3
    killed = Bench(page, tmp_path / "killed", text=repeated())
    assert finished(killed, until=17) == 17
    killed.take()  # a trial that its parent never ends
    killed.die()
    assert any(each.interrupted for each in found(killed))
    killed.begin()
    finished(killed)
    assert outcome(killed) == outcome(whole)
    assert all(each.closed for each in found(killed))


def test_every_search_s_choice_is_run_with_one_seed(page, tmp_path: Path) -> None:
    bench = Bench(page, tmp_path, text=repeated())
    study = load(page(repeated()))
    finished(bench, until=20)
    some = study.runs(ledger.chosen(found(bench)))
    assert {(run.entry, run.spec.seed) for run in some} == {
        (each.entry, each.final_seed) for each in found(bench) if each.closed
    }
    finished(bench)
    ledgers = found(bench)
    runs = study.runs(ledger.chosen(ledgers))
    assert len(runs) == 12
    rates = {(run.entry, run.spec.seed): run.spec.recipe.lr for run in runs}
    assert rates == {(x.entry, x.final_seed): (x.chosen or {})["lr"] for x in ledgers}
    assert len(set(rates.values())) > 3
    # Each search has a page of its choices, with the very run.
    pages = [text for r in range(6) for text in chosen_page.pages(study, ledgers, r).values()]
    assert len(pages) == 6
    keys = {run.key for text in pages for run in load(page(text, "chosen.yaml")).runs()}
    assert keys == {run.key for run in runs}
