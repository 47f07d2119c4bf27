"""The page of chosen hyperparameters names the study's own final runs."""

from pathlib import Path

from lightning_bench.bench.search import chosen_page, ledger
from lightning_bench.bench.store.trial import Trial
from lightning_bench.bench.study.load import load

PAGE = """\
title: t
question: q
data: [digits]
args: {depth: 3}
entries:
  Shared: {model: mlp}
  Own: {model: mlp, args: {depth: 2}}
seeds: 1
margin: {digits: 0.5, accuracy: 1}
search: {trials: 1, sampler: random, space: {lr: {float: [1e-3, 1e-1], log: true}}}
scales: {smoke: {}}
"""


def test_an_argument_at_its_default_outweighs_a_shared_one_there_too(page, tmp_path: Path) -> None:
    study = load(page(PAGE))
    folders = ledger.search_folders(study.cells(), tmp_path)
    trial = Trial(number=0, state="done", params={"lr": 0.01}, value=0.5, started="", ended="")
    for folder in folders:
        with folder.locked():
            folder.write(trial)
    ledgers = [folder.ledger() for folder in folders]
    final = study.runs(ledger.chosen(ledgers))
    assert [run.spec.model.args for run in final] == [{"depth": 3}, {}]
    (text,) = chosen_page.pages(study, ledgers).values()
    frozen = tmp_path / "frozen.yaml"
    frozen.write_text(text, encoding="utf-8")
    assert [run.key for run in load(str(frozen)).runs()] == [run.key for run in final]
    assert load(str(frozen)).margin == 0.5
