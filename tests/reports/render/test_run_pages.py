"""The data behind the HTML report's run pages: whole, shared, short."""

import json

from lightning_bench.bench.store.record import Epoch, Failure
from lightning_bench.reports.render import run_pages
from lightning_bench.reports.report import Attempt


def own(page, data):
    return dict(zip(data["labels"][page["labels"]], page["facts"], strict=True))


def facts(page, data):
    found = own(page, data)
    for place in page["shared"]:
        found |= dict(data["shared"][place][1])
    return found


def test_a_page_tells_all_that_the_record_knows(make):
    record = make.record("a", "digits", 3, {"accuracy": 0.912345678}, predictions="c" * 64)
    data = run_pages.data([make.run("a", "digits", 3, None, state="done", record=record)])
    found = facts(data["runs"][0], data)
    assert found["Test accuracy"] == "0.912346"
    assert found["Name"] == "a"
    assert found["batch size"] == "64"
    assert found["examples"] == "1,257 training, 180 validation, 360 test"
    assert found["Command"] == "bench run quickstart"
    assert found["Revision"] == "a" * 40
    assert found["Environment"] == "e" * 64
    assert found["Whole run"] == "3 s, 3 device-s"
    assert found["Log"].endswith("/log.txt")
    assert found["Predictions"].startswith("predictions.npz, SHA-256 cccc")


def test_failures_and_earlier_attempts_are_told(make):
    failure = Failure(kind="code", message="ValueError: no", log="runs/x.2/log.txt")
    record = make.record("a", "digits", 0, failure=failure, cost=None, attempt=2)
    earlier = [Attempt(number=1, end="interrupted", cause="ended", log="runs/x.1/log.txt")]
    run = make.run("a", "digits", 0, None, state="failed", record=record, earlier=earlier)
    data = run_pages.data([run])
    (page,) = data["runs"]
    assert page["why"] == "code: ValueError: no"
    assert own(page, data)["Log"] == "runs/x.2/log.txt"
    assert page["earlier"] == [["1", "interrupted", "ended", "–", "runs/x.1/log.txt"]]


def test_a_run_without_a_record_has_a_page_that_says_why(make):
    run = make.run("a", "digits", 0, None, reason="never run", folder=None)
    (page,) = run_pages.data([run])["runs"]
    assert (page["why"], page["facts"], page["shared"]) == ("never run", [], [])


def test_what_runs_share_is_kept_once(make):
    runs = [make.run("a", "digits", seed, 0.9) for seed in range(50)]
    data = run_pages.data(runs)
    assert len(data["shared"]) == 4
    assert len(data["labels"]) == 1
    assert {tuple(page["shared"]) for page in data["runs"]} == {(0, 1, 2, 3)}


def test_long_curves_are_thinned_and_keep_their_ends(make):
    curve = [
        Epoch(epoch=n, step=n, train_loss=float("nan") if n == 1 else 1 / n, metrics={"f1": 1.0})
        for n in range(1, 1_001)
    ]
    record = make.record("a", "digits", 0, {"f1": 1.0}, curve=curve)
    run = make.run("a", "digits", 0, None, state="done", record=record)
    (page,) = run_pages.data([run])["runs"]
    found = page["curve"]
    assert list(found) == ["epoch", "training loss", "validation f1"]
    assert len(found["epoch"]) == run_pages.MOST
    assert (found["epoch"][0], found["epoch"][-1]) == (1, 1_000)
    assert found["training loss"][0] is None
    json.dumps(page, allow_nan=False)
    assert [found["validation f1"][0], found["validation f1"][-1]] == [1.0, 1.0]
    many = run_pages.data([run] * (run_pages.DRAWN_RUNS + 1))
    assert "curve" not in many["runs"][0]
