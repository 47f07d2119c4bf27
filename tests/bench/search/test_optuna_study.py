"""One Optuna study: samplers and pruners by name, the first trial, and what survives a parent."""

from pathlib import Path
from typing import Any

import optuna
import pytest

from lightning_bench.bench.search import ledger, optuna_storage, samplers
from lightning_bench.bench.search.optuna_study import Sampling
from lightning_bench.bench.store.trial import Trial
from lightning_bench.bench.study.load import load
from lightning_bench.bench.study.search_cell import Cell
from tests.factory import study_page

LR = {"float": [1e-4, 1e-1], "log": True}
DEPTH, OPTIMIZER = {"int": [1, 3]}, {"choice": ["sgd", "adamw"]}
MOMENTUM = {"float": [0.5, 0.99], "when": {"optimizer": "sgd"}}


def tuned_page(lr: Any = LR, **further: Any) -> str:
    space = {"lr": lr, "args.depth": DEPTH, "optimizer": OPTIMIZER, **further}
    return study_page(
        entries={"MLP": {"model": "mlp"}},
        recipe={"epochs": 16, "lr": 3e-3, "optimizer": "adamw"},
        search={"trials": 14, "space": space},
    )


def cell_of(page: Any, *settings: str, text: str = "") -> Cell:
    return load(page(text or tuned_page(momentum=MOMENTUM)), None, settings).cells()[0]


def over(number: int, values: dict[str, Any], **changes: Any) -> Trial:
    value = -abs(values["lr"] - 0.01) if changes.get("state", "done") == "done" else None
    return Trial(**{"number": number, "state": "done", "params": values, "value": value,
                    "keys": [f"k{number}"], "started": "", "ended": "", **changes})  # fmt: skip


def search(cell: Cell, folder: Path, trials: int) -> list[dict[str, Any]]:
    """Ask and tell in one go, with a made-up score."""
    sampling, done = Sampling(cell, optuna_storage.connect(None, folder)), []
    for number in range(trials):
        values = sampling.ask(number, done)
        done.append(over(number, values, **({"cost": 1.0} if cell.search.cost else {})))
        sampling.tell(done)
    return [trial.params for trial in done]


def test_a_trial_that_another_parent_tells_at_the_same_moment_is_told(
    page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(page)
    ours, theirs = (Sampling(cell, optuna_storage.connect(None, tmp_path)) for _ in range(2))
    done = over(0, ours.ask(0, []))
    before = theirs.storage.get_trial(0)
    ours.tell([done])
    # They looked just before we told it.
    monkeypatch.setattr(theirs.storage, "get_trial", lambda _: before)
    theirs.tell([done])
    monkeypatch.undo()
    assert theirs.storage.get_trial(0).values == [done.value]


def test_tpe_draws_what_it_would_find_out_by_itself(
    page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = cell_of(page, text=tuned_page())
    told = search(cell, tmp_path / "told", 14)
    plain = optuna.samplers.TPESampler
    monkeypatch.setattr(samplers, "_tpe", lambda search, space, seed: plain(seed=seed))
    assert search(cell, tmp_path / "plain", 14) == told


@pytest.mark.parametrize("sampler", ["tpe", "random", "gp", "cmaes"])
def test_every_sampler_begins_with_the_recipe_and_stays_in_the_space(
    page, tmp_path: Path, sampler: str
) -> None:
    cell = cell_of(page, f"search.sampler={sampler}")
    drawn = search(cell, tmp_path, 14)
    assert drawn[0] == {"lr": 0.003, "args.depth": 2, "optimizer": "adamw"}
    for values in drawn:
        assert all(cell.space.parameters[name].contains(value) for name, value in values.items())
        assert ("momentum" in values) == (values["optimizer"] == "sgd")
    assert len({str(values) for values in drawn}) > 10


def test_two_objectives_are_asked_for(page, tmp_path: Path) -> None:
    cell = cell_of(page, "search.cost=parameters", "search.pruner=none")
    search(cell, tmp_path, 12)
    study = optuna.load_study(study_name=cell.name, storage=optuna_storage.connect(None, tmp_path))
    assert [d.name for d in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert study.metric_names == ["accuracy", "parameters"]
    assert all(len(trial.values) == 2 for trial in study.trials)


def test_a_grid_is_walked_once_each_point(page, tmp_path: Path) -> None:
    text = tuned_page(lr={"choice": [1e-3, 3e-3]})
    cell = cell_of(page, "search.sampler=grid", "search.trials=13", text=text)
    drawn = [str(sorted(values.items())) for values in search(cell, tmp_path, 13)]
    assert len(set(drawn[1:])) == 12  # 2 learning rates × 3 depths × 2 optimisers
    assert drawn[0] in drawn[1:]


def test_random_trials_are_the_same_whoever_draws_them(page, tmp_path: Path) -> None:
    cell = cell_of(page, "search.sampler=random")
    together = search(cell, tmp_path / "a", 6)
    apart = []
    for number in range(6):  # a new parent for each trial
        sampling = Sampling(cell, optuna_storage.connect(None, tmp_path / "b"))
        apart.append(sampling.ask(number, [over(i, v) for i, v in enumerate(apart)]))
    assert apart == together
    other = search(cell_of(page, "search.sampler=random", "search.seed=1"), tmp_path / "c", 6)
    assert other[1:] != together[1:]


def test_asking_again_gives_the_same_trial(page, tmp_path: Path) -> None:
    cell = cell_of(page)
    sampling = Sampling(cell, optuna_storage.connect(None, tmp_path))
    first, second = sampling.ask(0, []), sampling.ask(1, [])
    again = Sampling(cell, optuna_storage.connect(None, tmp_path))
    assert (again.ask(1, []), again.ask(0, [])) == (second, first)
    assert len(again._study.trials) == 2


def test_a_lost_storage_is_filled_again_from_the_store(page, tmp_path: Path) -> None:
    cell = cell_of(page)
    values = {"lr": 0.01, "args.depth": 1, "optimizer": "sgd", "momentum": 0.6}
    done = [
        over(0, cell.space.own()),
        over(1, values, state="pruned", curve=[(1, 0.2), (2, 0.3)]),
        over(2, values, state="failed"),
    ]
    sampling = Sampling(cell, optuna_storage.connect(None, tmp_path))
    assert sampling.ask(3, done)["lr"] > 0
    trials = sampling._study.trials
    assert [t.state.name for t in trials] == ["COMPLETE", "PRUNED", "FAIL", "RUNNING"]
    assert trials[1].intermediate_values == {1: 0.2, 2: 0.3}
    assert trials[2].user_attrs["runs"] == ["k2"]


def test_nothing_stays_running_in_the_storage(page, tmp_path: Path) -> None:
    """A parent may die between its record in the store and its word to Optuna."""
    cell = cell_of(page)
    opened = optuna_storage.connect(None, tmp_path)
    sampling = Sampling(cell, opened)
    values = [sampling.ask(number, []) for number in range(3)]
    done = [over(0, values[0]), over(1, values[1], state="failed", reason="lost")]
    Sampling(cell, opened).ask(3, done)
    states = [trial.state.name for trial in sampling._study.trials]
    assert states == ["COMPLETE", "FAIL", "RUNNING", "RUNNING"]


@pytest.mark.parametrize(
    ("pruner", "kind"),
    [
        ("none", optuna.pruners.NopPruner),
        ("median", optuna.pruners.MedianPruner),
        ("asha", optuna.pruners.SuccessiveHalvingPruner),
        ("hyperband", optuna.pruners.HyperbandPruner),
    ],
)
def test_a_hopeless_trial_is_pruned_and_the_best_is_not(
    page, tmp_path: Path, pruner: str, kind: type
) -> None:
    cell = cell_of(page, f"search.pruner={pruner}")
    sampling = Sampling(cell, optuna_storage.connect(None, tmp_path))
    assert type(sampling._study.pruner) is kind
    ended: dict[int, int] = {}
    done: list[Trial] = []
    for number in range(12):
        values = sampling.ask(number, done)
        quality = 0.9 if number < 6 or number == 11 else 0.1
        for epoch in range(1, 17):
            ended[number] = epoch
            if sampling.report(number, epoch, quality + (number == 11) * 0.05 + 1e-3 * epoch):
                break
        done.append(over(number, values, curve=[(1, quality)]))
        sampling.tell(done[-1:])
    assert ended[11] == 16
    early = [number for number in range(6, 11) if ended[number] < 16]
    assert (early == []) if pruner == "none" else len(early) >= 3, ended


def test_claims_are_exclusive_and_free_with_their_holder(page, tmp_path: Path) -> None:
    cell = cell_of(page, "search.trials=3")
    one, two = (ledger.SearchFolder(cell, cell.folder(tmp_path)) for _ in range(2))

    def claim(searched: ledger.SearchFolder) -> ledger.TrialClaim | None:
        with searched.locked():
            return searched.claim()

    first, second = claim(one), claim(two)
    assert first
    assert second
    assert (first.number, second.number) == (0, 1)
    second.keep_values({"lr": 0.02})
    os_close(second)  # as if its process had died
    assert (one.ledger().running, one.ledger().interrupted) == (1, 1)
    taken = claim(one)
    assert taken
    assert (taken.number, taken.values) == (1, {"lr": 0.02})
    third = claim(two)
    assert third
    assert third.number == 2
    assert claim(one) is None
    assert claim(two) is None
    for held in (first, taken, third):
        one.write(over(held.number, {"lr": 0.1}))
        held.release()
    assert two.ledger().closed
    assert claim(two) is None


def os_close(claim: ledger.TrialClaim) -> None:
    import os

    os.close(claim.descriptor)


def test_no_trial_begins_once_the_device_hours_are_spent(page, tmp_path: Path) -> None:
    cell = cell_of(page, "search.device_h=1")
    searched = ledger.SearchFolder(cell, cell.folder(tmp_path))
    for number, hours in enumerate((0.4, 0.5, 0.2)):
        with searched.locked():
            claim = searched.claim()
        assert claim
        assert claim.number == number
        searched.write(over(number, {"lr": 0.1}, device_h=hours, state="failed"))
        claim.release()
    with searched.locked():
        assert searched.claim() is None
    now = searched.ledger()
    assert now.exhausted
    assert now.closed
    assert now.chosen is None  # every trial failed
