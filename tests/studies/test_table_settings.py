"""Pages at full scale have the settings that the documents' tables state."""

import re
from pathlib import Path

import yaml

from lightning_bench import studies
from lightning_bench.bench.study.load import load
from lightning_bench.bench.study.load import scales as scales_of


def test_bert_of_tables_8_and_9_is_table_7_s_with_6_layers() -> None:
    """The very runs of masked-lm-depth, so that they are paid once."""
    deep = load("masked-lm-depth", "full")
    words = {run.entry: run.key for run in deep.before()}["words (BERT, 6 layers)"]
    tuned = {(r.dataset, r.spec.seed): r.key for r in deep.runs() if r.entry == "BERT, 6 layers"}
    for name in ("text-embeddings", "tiny-attention"):
        study = load(name, "full")
        assert [run.key for run in study.before()] == [words]
        own = {(r.dataset, r.spec.seed): r.key for r in study.runs() if r.entry == "BERT"}
        assert own.items() <= tuned.items()


def test_c4_is_read_for_125_000_steps_with_10_000_of_warm_up() -> None:
    recipes = [entry.recipe for entry in load("sgu-variants", "full").resolved.values()]
    recipes += [entry.recipe for entry in load("toeplitz", "full").resolved.values()]
    recipes += [run.spec.recipe for run in load("masked-lm-depth", "full").before()]
    assert {recipe.steps for recipe in recipes} == {125_000}
    assert {recipe.warmup * (recipe.steps or 0) for recipe in recipes} == {10_000}


def test_halonet_is_the_hybrid_and_gets_images_that_it_can_take() -> None:
    study = load("pretrained-transfer", "full")
    runs = [run for run in (*study.before(), *study.runs()) if "halonet" in run.spec.model.name]
    assert len({run.dataset for run in runs}) == 25  # 24 data sets and the stage's
    assert {run.spec.data.image_size for run in runs} == {384}
    assert {run.spec.model.args["convolutions"] for run in runs} == {2}


def test_noisy_student_is_scored_as_published() -> None:
    label = "Noisy Student (EfficientNet-L2)"
    (spec, *others) = (r.spec for r in load("vit-transfer", "full").runs() if r.entry == label)
    assert spec.weights == "timm/tf_efficientnet_l2.ns_jft_in1k"
    assert spec.recipe.epochs == 0
    assert (spec.data.image_size, spec.data.crop) == (800, 0.96)
    assert {other.data for other in others} == {spec.data}


def test_weights_are_those_whose_figures_the_tables_print() -> None:
    """Not AugReg's, which were published later, and are better."""
    for name in ("pretrained-transfer", "vit-transfer", "mixer-finetuning"):
        for scale in ("small", "full"):
            weights = [entry.weights for entry in load(name, scale).entries.values()]
            assert not [each for each in weights if "augreg" in each]


def test_imagenet_is_cropped_at_random_where_it_is_trained_from_scratch() -> None:
    for entry in load("vision-from-scratch", "full").resolved.values():
        small = all(data.image_size <= 32 for _, data in entry.data.values())
        assert entry.recipe.resized_crop == (0.0 if small else 0.08)


def test_a_model_much_smaller_than_the_printed_one_reproduces_no_print() -> None:
    for name, path in studies.pages().items():
        for scale in set(scales_of(path)) - {"full"}:
            entries = load(name, scale).entries
            for label in set(entries) & set(load(name, "full").entries):
                own, full = entries[label], load(name, "full").entries[label]
                if own.published and own.model != full.model:
                    raise AssertionError(f"{name} {scale}: {label} has another model's print")


def test_what_each_printed_table_needs_is_told_by_studies_that_there_are() -> None:
    published = Path(__file__).parents[2] / "reports/published"
    text = (published / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and "`" in line]
    told = {name for row in rows for name in re.findall(r"`([\w-]+)`", row[2])}
    assert told <= set(studies.pages())
    sources = {
        yaml.safe_load(path.read_text(encoding="utf-8"))["source"]
        for path in published.glob("*.yaml")
    }
    assert len(sources) >= 11
    for source in sources:
        row = next((row for row in rows if row[1].strip().startswith(source)), None)
        assert row is not None, source
        assert row[3].strip().startswith("works")
