"""Stages of a study: what is trained first, by whom it is shared, and mistakes in one line."""

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study.load import load

PAGE = """\
title: t
question: q
data: [digits]
stages:
  wide: {data: {name: digits, image_size: 8}, recipe: {epochs: 3}, seed: 7, args: {depth: 3}}
  first: {data: digits, recipe: {epochs: 1}, model: mlp, args: {width: 8}}
  second: {data: digits, recipe: {epochs: 2}, start: first}
entries:
  A: {model: mlp, args: {width: 16, depth: 4}, start: wide}
  B: {model: mlp, args: {width: 8}, start: second}
  C: {model: mlp, args: {width: 8}, start: second, recipe: {freeze: true}}
  D: {model: mlp, start: first}
  E: {model: mlp}
seeds: 2
recipe: {epochs: 5}
scales: {smoke: {}}
"""


def test_a_stage_is_run_once_and_before_what_starts_from_it(page) -> None:
    study = load(page(PAGE))
    assert [run.entry for run in study.before()] == ["wide (A)", "first", "second (B)"]
    specs = {run.entry: run.spec for run in study.before()}
    runs = {run.entry: run.spec for run in study.runs() if run.spec.seed == 1}
    assert runs["A"].start == specs["wide (A)"]
    assert runs["B"].start == runs["C"].start == specs["second (B)"]
    assert specs["second (B)"].start == runs["D"].start == specs["first"]
    assert runs["E"].start is None


def test_a_stage_trains_the_entry_s_model_by_its_own_recipe(page) -> None:
    wide, first, second = (run.spec for run in load(page(PAGE)).before())
    assert (wide.model.args, wide.seed, wide.recipe.epochs) == ({"width": 16, "depth": 3}, 7, 3)
    assert wide.data.image_size == 8
    assert (first.model.args, first.recipe.epochs, first.seed) == ({"width": 8}, 1, 0)
    assert (second.model.args, second.recipe.epochs) == ({"width": 8}, 2)


def test_arguments_at_their_default_are_dropped_once_laid_together(page) -> None:
    # depth 4 of the entry, 2 of the stage, and 2 is what the model has by itself
    study = load(page(PAGE), None, ["stages.wide.args.depth=2"])
    assert study.before()[0].spec.model.args == {"width": 16}


def test_the_key_covers_the_whole_lineage(page) -> None:
    plain = {run.entry: run.key for run in load(page(PAGE)).runs()}
    for change in ("stages.first.seed=1", "stages.first.recipe.lr=0.5"):
        changed = {run.entry: run.key for run in load(page(PAGE), None, [change]).runs()}
        assert {e for e in plain if plain[e] != changed[e]} == {"B", "C", "D"}, change
    assert len(set(plain.values())) == 5


def test_a_stage_that_is_shown_is_the_result_on_its_data(page) -> None:
    text = PAGE.replace("recipe: {epochs: 1}", "recipe: {epochs: 1}, shown: true")
    text = text.replace("[digits]", "[digits, {name: digits, shots: 5}]")
    study = load(page(text))
    first = study.before()[1]
    for label, own in (("A", False), ("B", True), ("D", True), ("E", False)):
        runs = [r for r in study.runs() if (r.entry, r.dataset) == (label, "digits (as it is)")]
        assert ([r.key for r in runs] == [first.key]) == own
        shots = [r for r in study.runs() if (r.entry, r.dataset) == (label, "digits (shots 5)")]
        assert [r.spec.seed for r in shots] == [0, 1]


def test_no_seeds_train_nothing(page) -> None:
    study = load(page(PAGE), None, ["seeds=[]"])
    assert study.runs() == study.before() == []


MISTAKES = [
    ("start: wide", "start: wid", r":9: no stage 'wid'; did you mean 'wide'\?"),
    ("start: first}", "start: frist}", r":7: no stage 'frist'; did you mean 'first'\?"),
    ("args: {width: 8}}", "args: {width: 8}, start: second}", ":6: second → first → second is a"),
    ("start: wide", "model: mlp", "is given twice"),
    ("A: {model: mlp, args: {width: 16, depth: 4}, start: wide}", "A: {model: mlp}", ":5: nothing"),
    ("args: {depth: 3}", "args: {dept: 3}", ":5: .*dept.*depth"),
    ("args: {depth: 3}", "args: {classes: 3}", ":5: 'classes' comes from the data set"),
    ("model: mlp, args: {width: 8}}", "model: mpl}", ":6: there is no model 'mpl'"),
    ("first: {data: digits", "first: {data: digit", ":6: unknown data set 'digit'"),
    ("first: {data: digits", "first: {data: polarity", ":6: mlp reads images, but polarity"),
    ("first: {data: digits", "first: {data: cifar10", ":6: the images of cifar10 have 3 channels"),
    ("recipe: {epochs: 1}", "recipe: {epochs: 0}", ":6: 0 epochs train nothing to start from"),
    ("recipe: {epochs: 1}", "recipe: {epoch: 1}", ":6: unknown key 'stages.first.recipe.epoch'"),
    ("recipe: {epochs: 1}", "recipe: {whole_words: true}", ":6: whole_words has no effect"),
    ("first: {data: digits, ", "first: {", ":6: the key 'stages.first.data' is missing"),
    ("start: wide", "start: wide, weights: x", ":9: start or weights, not both"),
    ("seeds: 2", "probes: [toeplits]\nseeds: 2", r":14: there is no probe 'toeplits'; .*toeplitz"),
]


@pytest.mark.parametrize(("right", "wrong", "says"), MISTAKES)
def test_mistakes_are_told_in_one_line(page, right: str, wrong: str, says: str) -> None:
    assert right in PAGE
    with pytest.raises(UserError, match=says) as caught:
        load(page(PAGE.replace(right, wrong, 1)))
    assert "\n" not in str(caught.value)


TEXTS = """\
title: t
question: q
data: [{name: sst2, tokenizer: bert-uncased, length: 64}]
stages:
  words: {data: {name: wikitext103, tokenizer: bert-uncased, length: 64}}
entries:
  A: {model: gmlp-text, start: words}
  B: {model: transformer-text, start: words}
seeds: 1
scales: {smoke: {}}
"""


def test_masked_words_come_before_classes(page) -> None:
    study = load(page(TEXTS))
    assert [run.entry for run in study.before()] == ["words (A)", "words (B)"]


def test_what_an_entry_can_not_start_from(page) -> None:
    with pytest.raises(UserError, match=r":5: .*length 32, sst2 64.*can't be resized"):
        load(page(TEXTS), None, ["stages.words.data.length=32", "entries.B.start=words"])
    with pytest.raises(UserError, match=r"a vocabulary of its own .*train:8000"):
        load(page(TEXTS), None, ["stages.words.data.tokenizer=train:8000"])
    # No spatial matrix, no one length.
    page_b = TEXTS.replace("  A: {model: gmlp-text, start: words}\n", "")
    assert load(page(page_b), None, ["stages.words.data.length=32"]).before()


def test_published_weights_of_a_model_that_takes_them_itself(page) -> None:
    text = TEXTS.replace("model: gmlp-text, start: words", "model: hf/bert, weights: x/y")
    with pytest.raises(UserError, match=r":7: hf/bert takes them as args: \{weights: x/y}"):
        load(page(text))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{name: polarity, shifts: 2}", "polarity is a data set of texts and has no shifts"),
        ("{name: digits, shifts: 8}", "digits is 8 pixels wide"),
        ("{name: stsb, shots: 2}", "stsb has no classes"),
        ("{name: digits, shots: 0}", "shots"),
    ],
)
def test_shots_and_shifts_where_they_can_not_be(page, data: str, says: str) -> None:
    text = f"title: t\nquestion: q\ndata: [{data}]\nentries: {{A: {{model: mlp}}}}\nseeds: 1\n"
    with pytest.raises(UserError, match=says):
        load(page(text + "scales: {smoke: {}}\n"))
