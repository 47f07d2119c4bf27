"""LightningModules of the user's own are trained by their own steps: metrics, resume, ranks."""

import importlib.util
import re
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.run import training
from lightning_bench.bench.run.checkpoint import Checkpoints
from lightning_bench.bench.run.control import Control, Stopped
from lightning_bench.bench.run.distributed import Rank, RankProcesses
from lightning_bench.bench.spec import ModelSpec, RunSpec
from lightning_bench.bench.study.load import load
from lightning_bench.models.registry import counting
from tests import factory
from tests.bench.processes import start

MODULES = "tests.bench.own_modules"
ACC = {"val/acc": "accuracy"}


def spec(name: str, metrics: dict[str, str] = ACC, args: dict[str, Any] | None = None, **recipe):
    made = factory.spec("mlp", "digits", None, {"epochs": 3, "batch_size": 100} | recipe)
    model = ModelSpec(name=f"{MODULES}:{name}", args=args or {}, metrics=metrics)
    return made.model_copy(update={"model": model})


def train(of: RunSpec, **settings: Any) -> training.Outcome:
    return training.train(of, device="cpu", on_epoch=lambda _: None, keep_weights=True, **settings)


def test_its_own_steps_optimiser_and_schedule_train_it() -> None:
    outcome = train(spec("Automatic"))
    assert outcome.metrics["accuracy"] == outcome.metrics["test/acc"] > 0.8
    assert [epoch.epoch for epoch in outcome.curve] == [1, 2, 3]
    last = outcome.curve[-1]
    assert last.metrics["accuracy"] == last.metrics["val/acc"]
    assert last.metrics["val/best"] == max(epoch.metrics["val/acc"] for epoch in outcome.curve)
    assert 0 < last.train_loss < outcome.curve[0].train_loss
    assert last.step == 3 * (outcome.data.train // 100)
    assert outcome.parameters == 64 * 32 + 32 + 32 * 10 + 10
    assert "net.1.weight" in (outcome.weights or {})


def test_of_predictions_the_same_metrics_are_computed_as_for_all_others() -> None:
    outcome = train(spec("Predicts", {}))
    kept = outcome.predictions
    assert outcome.metrics["accuracy"] == (kept["predicted"] == kept["target"]).mean()
    assert {"nll", "ece", "macro_f1"} <= outcome.metrics.keys()
    assert len(kept["index"]) == outcome.scored == outcome.data.test


def test_nested_objects_are_made_by_the_libraries_whose_spelling_it_is() -> None:
    pytest.importorskip("jsonargparse")
    args = {"optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.5}}}
    assert train(spec("Automatic", args=args)).metrics["accuracy"] > 0.5


def test_hydras_spelling_with_partials() -> None:
    pytest.importorskip("hydra")
    sizes = {"in_features": "{inputs}", "out_features": "{classes}"}
    layers = [{"_target_": "torch.nn.Flatten"}, {"_target_": "torch.nn.Linear", **sizes}]
    args = {
        "net": {"_target_": "torch.nn.Sequential", "_args_": layers},
        "optimizer": {"_target_": "torch.optim.Adam", "_partial_": True, "lr": 0.01},
    }
    outcome = train(spec("Automatic", args=args))
    assert outcome.parameters == 650
    assert outcome.metrics["accuracy"] > 0.7


@pytest.mark.parametrize("name", ["Automatic", "TwoOptimisers"])
def test_it_goes_on_from_a_checkpoint_bit_for_bit(name: str, tmp_path: Path) -> None:
    whole = train(spec(name))
    batches = 0

    def after_two_epochs() -> str | None:
        nonlocal batches
        batches += 1
        return "stop" if batches > 27 else None  # of 12 batches and one look an epoch

    control = Control(checkpoints=Checkpoints(tmp_path, {}), checkpoint_s=0)
    control.request = after_two_epochs  # type: ignore[assignment]
    with pytest.raises(Stopped):
        train(spec(name), control=control)
    again = Checkpoints(tmp_path / "again", {}, [(1, tmp_path)])
    resumed = train(spec(name), control=Control(checkpoints=again))
    assert resumed.resumed_from == [1]
    assert [e.metrics for e in resumed.curve] == [e.metrics for e in whole.curve]
    assert resumed.metrics == whole.metrics
    assert resumed.weights
    assert whole.weights
    assert resumed.weights.keys() == whole.weights.keys()
    assert all(torch.equal(resumed.weights[k], whole.weights[k]) for k in whole.weights)


def on_rank(of: RunSpec, folder: Path, rank: Rank, others: RankProcesses | None = None) -> None:
    torch.set_num_threads(1)
    with rank.process_group("cpu", others.start if others else None):
        outcome = train(of, rank=rank)
    if rank.first:
        torch.save(vars(outcome), folder / "0.pt")


def on_two_ranks(of: RunSpec, folder: Path) -> None:
    with RankProcesses(2, partial(on_rank, of, folder)) as others:
        on_rank(of, folder, Rank(world=2), others)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RankZero", "TwoOptimisers"])
def test_two_ranks_score_every_example_once(name: str, tmp_path: Path) -> None:
    process = start(on_two_ranks, spec(name), tmp_path)
    process.join(300)
    assert process.exitcode == 0
    outcome = torch.load(tmp_path / "0.pt", weights_only=False)
    assert outcome["metrics"]["accuracy"] > 0.7
    assert len(outcome["curve"]) == 3
    assert all("accuracy" in epoch.metrics for epoch in outcome["curve"])
    if name == "RankZero":
        assert len(outcome["predictions"]["index"]) == outcome["data"].test


PAGE = """
title: Own
question: Does it run?
data: [digits]
scales: {{smoke: {{}}}}
seeds: 2
recipe: {{epochs: 1{recipe}}}
entries:
  Own: {{model: "{module}:{name}"{more}}}
"""


def page_of(*, recipe: str = "", **parts: str) -> str:
    return PAGE.format(recipe=recipe, **parts)


@pytest.mark.parametrize(
    ("name", "facts", "says"),
    [
        ("Untrained", {}, "Untrained has no training_step"),
        ("Raises", {}, "training or validation fails on a batch: ArithmeticError: never called"),
        ("Predicts", {"num_classes": 7}, "neither a class nor 10 logits|IndexError: Target 7"),
        ("made_by_a_function", {}, "makes a LightningModule: say so"),
    ],
)
def test_a_module_is_tried_with_a_batch(name: str, facts: dict[str, int], says: str) -> None:
    facts = {"channels": 1, "image_size": 8, "classes": 10, **facts}
    counted = counting.count_one(f"{MODULES}:{name}", facts)
    assert re.search(says, counted["error"])
    assert counted["unfit"]
    assert "\n" not in counted["error"]


def test_what_it_logs_is_known_before_it_is_trained() -> None:
    facts = {"channels": 1, "image_size": 8, "classes": 10}
    tried = counting.count_one(f"{MODULES}:Automatic", facts)
    assert {"train/loss", "val/acc", "val/best"} <= set(tried["logged"])
    assert tried["logged_in_test"] == ["test/acc"]
    assert (tried["predicts"], tried["manual"]) == (False, False)
    assert tried["flops"] == 2 * (64 * 32 + 32 * 10)
    tried = counting.count_one(f"{MODULES}:TwoOptimisers", facts)
    assert tried["manual"]
    assert counting.count_one(f"{MODULES}:Predicts", facts)["predicts"]


def test_sources_of_nested_classes_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts.py").write_text("import bricks\nclass Net: pass\n")
    (tmp_path / "bricks.py").write_text("")
    monkeypatch.setenv("BENCH_PAGE_FOLDER", str(tmp_path))
    args = {"net": {"class_path": "parts.Net"}, "optimizer": {"_target_": "torch.optim.SGD"}}
    found = source_digests.of_run(spec("Predicts", args=args))
    assert {"./parts.py", "./bricks.py", "bench/own_training.py"} <= found.keys()
    assert not any(name.startswith("torch") for name in found)
    assert "./parts.py" not in source_digests.of_run(spec("Predicts"))


@pytest.mark.slow
def test_what_is_not_possible_says_so_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "page.yaml"
    wrong = [
        ("Automatic", "", r":9: which of what it logs is accuracy\? .*{val/acc: accuracy}"),
        ("Automatic", ", metrics: {val/ac: accuracy}", "logs no val/ac; did you mean 'val/acc'"),
        ("Automatic", ", metrics: {val/best: accuracy}", "its test logs no counterpart of val/b"),
        ("Automatic", ", metrics: {val/acc: accurcy}", "is no metric here; did you mean 'accu"),
        ("Automatic", ", recipe: {lr: 0.1}", ":9: lr means nothing here"),
        ("TwoOptimisers", ", metrics: {val/acc: accuracy}, recipe: {clip_norm: 1.0}",
         "clip_norm is up to a module that optimises manually"),
    ]  # fmt: skip
    for name, more, says in wrong:
        path.write_text(page_of(module=MODULES, name=name, more=more))
        with pytest.raises(UserError, match=says) as raised:
            load(str(path))
        assert "\n" not in str(raised.value)
    good = ", metrics: {val/acc: accuracy}"
    path.write_text(page_of(module=MODULES, name="Automatic", more=good))
    (entry,) = load(str(path)).resolved.values()
    assert entry.variant.form == "lightning"
    ranked = "metrics: {{{}: max}}\n"
    path.write_text(path.read_text() + ranked.format("score"))
    with pytest.raises(UserError, match=r":10: there is no metric 'score'"):
        load(str(path))
    scored = page_of(module=MODULES, name="Automatic", more=", metrics: {val/acc: score}")
    path.write_text(scored + ranked.format("score"))
    study = load(str(path))
    assert study.datasets["digits"].metrics == ("score",)
    assert study.runs()[0].spec.metrics == ()  # nobody but the module computes it
    path.write_text(scored + "  MLP: {model: mlp}\n" + ranked.format("score"))
    with pytest.raises(UserError, match=r":10: the page ranks by score, which mlp is to log"):
        load(str(path))
    path.write_text(page_of(module=MODULES, name="Automatic", more=good, recipe=", lr: 0.01"))
    with pytest.raises(UserError, match=r":7: lr means nothing here: every entry trains itself"):
        load(str(path))
    path.write_text(path.read_text() + "  MLP: {model: mlp}\n")
    entry = load(str(path)).resolved["Own"]
    assert entry.recipe.lr == 1e-3, "a shared field that it never reads is in no key"
    sources = source_digests.of_run(entry.spec(next(iter(entry.data.values()))[0]))
    assert "bench/own_training.py" in sources
    assert any(name.endswith("/tests/bench/own_modules.py") for name in sources)


@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs lightning")
def test_a_module_of_the_other_package_is_trained_by_its_trainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(sys.modules[train.__module__].__file__ or "").parents[1] / "own_modules.py"
    text = source.read_text().replace("import pytorch_lightning as pl", "import lightning as pl")
    (tmp_path / "other_modules.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCH_PAGE_FOLDER", "")
    of = spec("Predicts")
    model = of.model.model_copy(update={"name": "other_modules.py:Predicts"})
    outcome = train(of.model_copy(update={"model": model}))
    assert outcome.metrics["accuracy"] > 0.8


SEARCHED = """
title: Own
question: Does it run?
data: [digits]
scales: {smoke: {}}
seeds: 2
recipe: {epochs: 2, batch_size: 100}
metrics: {score: max}
search:
  trials: 4
  pruner: asha
entries:
  Own:
    model: "MODULE:Automatic"
    metrics: {val/acc: score}
    args: {optimizer: {class_path: torch.optim.SGD, init_args: {lr: 0.1}}, num_classes: 10}
    space:
      args.optimizer.init_args.lr: {float: [1e-3, 1.0], log: true}
"""


@pytest.mark.slow
def test_nested_arguments_are_searched_by_what_the_module_logs(tmp_path: Path) -> None:
    pytest.importorskip("jsonargparse")
    path = tmp_path / "page.yaml"
    path.write_text(SEARCHED.replace("MODULE", MODULES))
    study = load(str(path))
    (cell,) = study.cells()
    name = "args.optimizer.init_args.lr"
    assert (cell.metric, cell.higher_is_better) == ("score", True)
    assert cell.space.own() == {name: 0.1}
    trial = cell.spec({name: 0.5}, 7, tested=False)
    assert trial.model.metrics == {"val/acc": "score"}  # of trials, too
    assert trial.model.args["optimizer"]["init_args"] == {"lr": 0.5}
    assert cell.base.model.args["optimizer"]["init_args"] == {"lr": 0.1}
    outcome = train(trial)
    assert "score" in outcome.curve[-1].metrics
    wrong = SEARCHED.replace("MODULE", MODULES).replace("init_args.lr:", "init_args.rate:")
    path.write_text(wrong)
    with pytest.raises(UserError, match=r"is no hyperparameter.*did you mean"):
        load(str(path))
