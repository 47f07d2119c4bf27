"""Rules: a good study keeps them all, and each breach is found by its own rule."""

from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.plan import check_rules, plan
from lightning_bench.bench.store.record import Epoch, Record
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.store.trial import Ledger, Trial
from lightning_bench.bench.study.load import load
from tests.factory import (
    DATA,
    SOURCES,
    curve,
    failure,
    record,
    recorded,
    study_page,
    with_provenance,
)


def made(page: Any, change: Any = None) -> plan.Plan:
    """A finished study, one run of which (B, seed 2) may be changed."""
    study = load(page(study_page(seeds=3)))
    runs = study.runs()
    attempts = {}
    for run in runs:
        good = record(run.spec, curve=[Epoch(epoch=1, step=10, train_loss=1.0)])
        if change and run is runs[-1]:
            good = change(good)
        attempts[run.key] = recorded(good)
    return plan.make(study, runs, attempts, lambda _: SOURCES)


def broken(found: plan.Plan) -> dict[str, list[str]]:
    return {rule.name: breaches for rule, breaches in check_rules.check(found) if breaches}


def test_a_good_study_keeps_every_rule(page) -> None:
    assert broken(made(page)) == {}


def provenance(**changes: Any) -> Any:
    return lambda good: with_provenance(good, **changes)


def changed(**changes: Any) -> Any:
    return lambda good: good.model_copy(update=changes)


def smaller(good: Record) -> Record:
    assert good.cost
    return good.model_copy(update={"cost": good.cost.model_copy(update={"parameters": 1})})


BREACHES = [
    (changed(schema_version=0), {"schema"}, "schema 0, not 1"),
    (changed(scored=359), {"counts"}, "scored 359 of 360"),
    (smaller, {"sizes"}, "B on digits, seed 2 has 1 parameters, where others have"),
    (changed(metrics={"accuracy": float("nan")}), {"numbers"}, "accuracy is nan"),
    (
        changed(data=DATA.model_copy(update={"fingerprint": "g" * 64})),
        {"fingerprints"},
        "not the same data",
    ),
    (
        changed(curve=[Epoch(epoch=1, step=20, train_loss=1.0)]),
        {"budgets"},
        "different lengths",
    ),
    (provenance(threads=2), {"hardware"}, "1 × cpu, 2 threads"),
    (provenance(environment="d" * 64), {"hardware"}, "2 different environments"),
    (
        provenance(device="cuda", device_kind="NVIDIA A100"),
        {"hardware", "devices"},
        "mixed: CPU in A on digits, seed 0; NVIDIA A100 in B on digits, seed 2",
    ),
    (provenance(git_revision="r"), {"revisions"}, "2 revisions"),
    (provenance(git_dirty=True), {"revisions"}, "uncommitted"),
    (provenance(sources={}), {"done", "seeds"}, "is stale"),
    (
        changed(status="failed", failure=failure()),
        {"done", "seeds"},
        "is failed",
    ),
]


@pytest.mark.parametrize(("change", "rules", "says"), BREACHES)
def test_each_breach_is_found_by_its_rule(page, change: Any, rules: set[str], says: str) -> None:
    found = broken(made(page, change))
    assert found.keys() >= rules
    assert found.keys() <= rules | {"revisions"}
    assert any(says in breach for breaches in found.values() for breach in breaches)


@pytest.mark.parametrize(
    ("printed", "mean", "higher", "beyond"),
    [
        (0.48, 0.50, True, False),
        (0.48, 0.73, True, False),
        (0.48, 0.75, True, True),  # an error of 0.25 where 0.52 is printed
        (0.99, 0.999, True, False),  # a tenth of the error, but less than two points
        (0.95, 0.985, True, True),
        (4.0, 3.1, False, False),
        (4.0, 2.9, False, True),
    ],
)
def test_a_mean_far_beyond_print_is_implausible(printed, mean, higher, beyond) -> None:
    figure = check_rules.Printed("A", "digits", "accuracy", printed, higher, "FCN, Table 5")
    assert check_rules._beyond(mean, figure) is beyond


def test_the_entry_that_leaves_print_behind_is_named(page) -> None:
    # All means are 0.5; taken for a loss, that is well below what is printed of A.
    figures = [
        check_rules.Printed("A", "digits", "accuracy", 0.9, False, "FCN, Table 5"),
        check_rules.Printed("B", "digits", "accuracy", 0.6, False, "FCN, Table 5"),
        check_rules.Printed("A", "pets", "accuracy", 0.9, False, "FCN, Table 5"),
    ]
    found = {
        rule.name: breaches
        for rule, breaches in check_rules.check(made(page), [check_rules.plausible(figures)])
    }
    assert found["plausible"] == ["A on digits: mean accuracy 0.5, where FCN, Table 5 prints 0.9"]


def test_an_entry_is_held_against_its_own_row_or_the_best_printed_one(page) -> None:
    from lightning_bench.bench.cli.commands.check import _printed

    text = study_page(
        entries={"A": {"model": "mlp"}, "B": {"model": "lenet", "published": "our gMLP"}},
        published={"vision-from-scratch": {"cifar10_top1": "digits/accuracy"}},
    )
    found = {p.entry: p.value for p in _printed(load(page(text)))}
    assert found == {"A": pytest.approx(0.986), "B": pytest.approx(0.802)}


def test_every_rule_can_be_broken() -> None:
    rules = set().union(*(rules for _, rules, _ in BREACHES)) | {"tuning", "choices"}
    assert {rule.name for rule in check_rules.RULES} == rules


def test_searches_have_one_budget_and_are_over(page) -> None:
    search = {"trials": 2, "space": {"lr": {"float": [1e-4, 1e-1]}}}
    study = load(page(study_page(search=search)))

    def ledgers(*trials: int, device_h: float | None = None) -> list[Ledger]:
        assert study.search
        budget = study.search.model_copy(update={"device_h": device_h})
        return [
            Ledger(
                entry=cell.entry,
                dataset=cell.dataset,
                metric=cell.metric,
                higher_is_better=True,
                space={},
                budget=budget,
                epochs=1,
                trials=[
                    Trial(
                        number=i,
                        state="done",
                        params={},
                        value=0.5,
                        device_h=1,
                        started="",
                        ended="",
                    )
                    for i in range(count)
                ],
            )
            for cell, count in zip(study.cells(), trials, strict=True)
        ]

    def said(*trials: int, device_h: float | None = None) -> list[str]:
        found = plan.make(study, [], {}, lambda _: SOURCES, ledgers(*trials, device_h=device_h))
        return broken(found).get("tuning", [])

    assert said(2, 2) == []
    assert any("the search of B on digits is not finished: 1 of 2 trials" in b for b in said(2, 1))
    spent = said(2, 1, device_h=1.0)
    assert spent == ["B on digits had 1 trials and 1 device-hours; others had more trials"]

    aged = [
        ledger.model_copy(update={"outdated": 1, "changed": ["models/a.py"]})
        for ledger in ledgers(2, 2)[:1]
    ]
    found = broken(plan.make(study, [], {}, lambda _: SOURCES, aged))["choices"]
    assert found == ["A on digits: 1 of 2 trials ran with other code (models/a.py changed since)"]


@pytest.mark.parametrize(("version", "breached"), [(1, set()), (2, {"schema"})])
def test_the_schema_that_the_rule_demands_is_the_one_that_the_store_writes(
    page, tmp_path: Path, version: int, breached: set[str]
) -> None:
    study, store = load(page(study_page())), Store(tmp_path / "store")
    for run in study.runs():
        made = record(run.spec, curve=curve({"accuracy": 0.5}))
        assert made.schema_version == 1
        with store.claim(run.spec, 1) as folder:
            changed = made.model_copy(update={"schema_version": version})
            store.write_record(folder, changed)
    found = plan.make(study, study.runs(), store.scan(), lambda _: SOURCES)
    assert broken(found).keys() == breached


@pytest.mark.parametrize("drawn", ["shots", "split"])
def test_data_that_seeds_draw_are_the_same_for_all_entries_of_a_seed(page, drawn: str) -> None:
    data = (
        {"name": "digits", "shots": 5} if drawn == "shots" else {"name": "digits", "split": "seed"}
    )
    study = load(page(study_page(data=[data], seeds=3)))
    runs = study.runs()

    def of(marks: dict[tuple[str, int], str]) -> dict[str, list[str]]:
        attempts = {}
        for run in runs:
            mark = marks.get((run.entry, run.spec.seed), f"{run.spec.seed}" * 64)
            facts = DATA.model_copy(update={"fingerprint": mark})
            curve_ = [Epoch(epoch=1, step=10, train_loss=1.0)]
            attempts[run.key] = recorded(record(run.spec, curve=curve_, data=facts))
        return broken(plan.make(study, runs, attempts, lambda _: SOURCES))

    assert of({}) == {}
    (breach,) = of({("B", 2): "0" * 64})["fingerprints"]
    assert breach.startswith("digits, seed 2, was not the same data for all")


def test_runs_that_vary_one_source_are_no_second_runs_of_a_seed(page) -> None:
    text = study_page(data=[{"name": "digits", "split": "seed"}], seeds=3, variance="all")
    study = load(page(text))
    runs, attempts = study.runs(), {}
    for run in runs:
        # The split is the held one's, so that the data are, too.
        facts = DATA.model_copy(update={"fingerprint": f"{run.spec.seed_of('split')}" * 64})
        curve_ = [Epoch(epoch=1, step=10, train_loss=1.0)]
        attempts[run.key] = recorded(record(run.spec, curve=curve_, data=facts))
    assert broken(plan.make(study, runs, attempts, lambda _: SOURCES)) == {}
