"""Every study's smoke scale, run offline as a user would, and what its table must show."""

import json
import operator
from pathlib import Path
from typing import Any

import pytest

from lightning_bench import studies
from lightning_bench.bench.search import ledger
from lightning_bench.bench.study.load import load
from lightning_bench.bench.study.load import scales as scales_of
from tests.commands import bench

pytestmark = pytest.mark.slow

MORE, LESS = operator.gt, operator.lt
#: One property of each table: an entry's value in a column against another's, or a number.
SHOWN = {
    "accuracy-versus-cost": ("ResNet, large", MORE, "ResNet, small", "digits/accuracy"),
    "activations": ("GELU", MORE, "Identity", "digits-inverted/accuracy"),
    "batch-norm": ("With, lr 0.1", MORE, "Without, lr 0.1", "digits/accuracy"),
    "bias": ("ReLU, with", MORE, "Logistic, with", "digits/accuracy"),
    "complexity": ("ViT-S/16 (S = 196)", MORE, "ViT-S/32 (S = 49)", "flops"),
    "cpu-layers": ("gMLP", MORE, 0.6, "polarity/accuracy"),
    "cpu-text": ("gMLP", MORE, 0.6, "entailment/accuracy"),
    "cpu-transfer": ("Fine-tuned", MORE, "From scratch", "digits/accuracy"),
    "cpu-vision": ("ResNet-8", MORE, "ViT", "digits/accuracy"),
    "gmlp-specifications": ("gMLP-B/16", MORE, "gMLP-S/16", "parameters"),
    "gradient-flow": ("Both, ReLU", MORE, "Plain, ReLU", "digits/accuracy"),
    "learning-rate-map": ("MLP, wide, lr 0.03", MORE, "MLP, wide, lr 1", "digits/accuracy"),
    "masked-lm-depth": ("gMLP, 2 blocks", LESS, "BERT, 1 layer", "python-docs/perplexity"),
    "mixer-finetuning": ("Mixer, fine-tuned", MORE, "Mixer", "digits/accuracy"),
    "mixer-specifications": ("Mixer-L/16", MORE, 207.5e6, "parameters"),
    "native-size": ("Mixer, native", MORE, 0.5, "digits-28/accuracy"),
    "next-sentence": ("Both", MORE, 0.5, "python-docs-nsp/accuracy"),
    "optimizers": ("Adam", MORE, 0.8, "digits/accuracy"),
    "parameter-counts": ("Convolution", MORE, 0.85, "digits/accuracy"),
    "position-embeddings": (
        "Transformer, sinusoidal",
        MORE,
        "Transformer, none",
        "polarity/accuracy",
    ),
    "pretrained-transfer": ("Mixer, 4 blocks", MORE, 0.5, "digits/accuracy"),
    "pretraining-size": ("ResNet, all", MORE, "ResNet, a tenth", "digits/accuracy"),
    "receptive-field": ("3 layers", MORE, "1 layer", "digits-28/accuracy"),
    "regularisation": ("ConvNet", MORE, "Mixer", "digits/accuracy"),
    "sgu-variants": ("Split", LESS, "Linear", "python-docs/perplexity"),
    "shift-robustness": ("LeNet", MORE, "MLP", "digits-28/accuracy_shift2"),
    "text-embeddings": ("gMLP", MORE, 0.6, "entailment/accuracy"),
    "tiny-attention": ("aMLP", MORE, 0.6, "entailment/accuracy"),
    "toeplitz": ("tMLP, split", LESS, "gMLP, split", "python-docs/perplexity"),
    "variance-sources": ("ResNet", MORE, "ViT", "digits/accuracy"),
    "vision-from-scratch": ("ResNet", MORE, "ViT", "digits/accuracy"),
    "vit-specifications": ("ViT-H/14", MORE, 632e6, "parameters"),
    "vit-transfer": ("ResNet, 8 layers", MORE, 0.5, "digits/accuracy"),
}
#: Lessons whose difference two seeds show as well as all of the page's.
OF_TWO_SEEDS = {
    "gradient-flow", "native-size", "position-embeddings", "pretraining-size",
    "receptive-field", "regularisation",
}  # fmt: skip
#: Tested by itself, and by other studies of its kind.
ELSEWHERE = {"quickstart"}


#: Searches: an entry that must get at least this in a column, once tuned.
TUNED = {
    "digits-tuned": ("ResNet", 0.9, "digits/accuracy"),
    "text-embeddings-tuned": ("gMLP", 0.6, "entailment/accuracy"),
    "vision-from-scratch-tuned": ("ResNet", 0.9, "digits/accuracy"),
}


def smoke(*, tuned: bool) -> list[str]:
    """The pages with a smoke scale, those with a search or the others."""
    with_smoke = [n for n, path in studies.pages().items() if "smoke" in scales_of(path)]
    return sorted(n for n in with_smoke if (load(n, "smoke").search is not None) == tuned)


def run(name: str, tmp_path: Path) -> dict[str, Any]:
    """Run a page's smoke scale offline; its report."""
    offline = {"HF_HUB_OFFLINE": "1", "BENCH_STORE": str(tmp_path)}
    hidden = {"BENCH_DATA": None, "BENCH_MODELS": None}
    words = ("run", name, "--scale", "smoke", "--jobs", "2")
    words += ("--set", "seeds=2") if name in OF_TWO_SEEDS else ()
    done = bench(*words, cwd=tmp_path, env=offline | hidden, timeout_s=1200)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (written,) = tmp_path.glob(f"reports/{name}-smoke*/report.json")
    report: dict[str, Any] = json.loads(written.read_text())
    assert set(report["runs"]) <= {"done"}
    return report


def values(report: dict[str, Any], column: str) -> dict[str, float]:
    """A column of a report's first table, by entry."""
    table = report["tables"][0]
    place = [each["id"] for each in table["columns"]].index(column)
    return {each["label"]: each["cells"][place]["value"] for each in table["rows"]}


@pytest.mark.parametrize("name", sorted(set(smoke(tuned=False)) - ELSEWHERE))
def test_the_smoke_scale_runs_offline_and_shows_what_it_teaches(name: str, tmp_path: Path) -> None:
    row, compare, than, column = SHOWN[name]
    found = values(run(name, tmp_path), column)
    assert compare(found[row], found[than] if isinstance(than, str) else than)


@pytest.mark.parametrize("name", smoke(tuned=True))
def test_a_tuned_study_s_smoke_scale_spends_its_budget_and_runs_what_it_chose(
    name: str, tmp_path: Path
) -> None:
    report = run(name, tmp_path)
    asked = load(name, "smoke")
    assert asked.search is not None
    cells = asked.cells()
    assert report["runs"] == {"done": len(cells) * len(asked.seeds)}
    found = [searched.ledger() for searched in ledger.search_folders(cells, tmp_path)]
    assert [len(each.trials) for each in found] == [asked.search.trials] * len(cells)
    assert all(each.closed and each.best and not each.count("failed") for each in found)
    row, least, column = TUNED[name]
    assert values(report, column)[row] > least
    # What it chose is a page with the very runs that were made.
    pages = list((tmp_path / f"reports/{name}-smoke").glob("*-chosen*.yaml"))
    assert len(pages) == len(asked.data)
    keys = {run.key for page in pages for run in load(str(page)).runs()}
    assert keys == {run.key for run in asked.runs(ledger.chosen(found))}
