"""Studies: expansion, scales, and mistakes that name their place and the nearest valid name."""

from pathlib import Path

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study.load import load
from tests.factory import study_page

PAGE = """\
title: t
question: q
data: [digits]
entries:
  A: {model: mlp, args: {width: 16}}
  B: {model: lenet, recipe: {lr: 0.1}, group: g}
seeds: [3, 1]
recipe: {epochs: 2}
scales:
  smoke: {seeds: [0]}
  full:
    recipe: {batch_size: 32}
    entries: {A: {args: {depth: 3}}}
"""


def test_entries_times_data_times_seeds(page) -> None:
    study = load(page(PAGE), "full")
    assert [(run.entry, run.spec.seed) for run in study.runs()] == [
        ("A", 3),
        ("B", 3),
        ("A", 1),
        ("B", 1),
    ]
    first, second = study.runs()[:2]
    assert first.spec.model.args == {"width": 16, "depth": 3}
    assert (first.spec.recipe.epochs, first.spec.recipe.batch_size) == (2, 32)
    assert (second.spec.recipe.lr, second.spec.recipe.epochs) == (0.1, 2)


def test_the_smallest_scale_is_the_default(page) -> None:
    assert load(page(PAGE)).scale == "smoke"
    assert load(page(PAGE)).seeds == [0]
    assert load(page(PAGE), None, ["seeds=3"]).seeds == [0, 1, 2]


def test_settings_reach_into_mappings(page) -> None:
    study = load(page(PAGE), "smoke", ["entries.A.args.width=8", "recipe.lr=1e-2", "threads=2"])
    assert study.runs()[0].spec.model.args == {"width": 8}
    assert study.recipe.lr == 0.01
    assert study.threads == 2


def test_the_command_that_makes_it_is_known_without_folders_of_this_machine(page) -> None:
    path = page(PAGE)
    study = load(path, "smoke", ["recipe.lr=1e-2", "entries.A.args.width=8"])
    assert study.command == (
        f"bench run {Path(path).name} --scale smoke --set recipe.lr=1e-2"
        " --set entries.A.args.width=8"
    )
    assert load("quickstart").command == "bench run quickstart --scale smoke"


def test_arguments_at_their_default_are_dropped(page) -> None:
    study = load(page(PAGE), None, ["entries.A.args.depth=2"])
    assert study.entries["A"].args == {"width": 16}


MISTAKES = [
    ("epochs: 2", "epoch: 2", r":8: unknown key 'recipe.epoch'; did you mean 'epochs'\?"),
    ("epochs: 2", "epochs: -1", ":8: recipe.epochs: .*greater than or equal to 0, not -1"),
    ("epochs: 2", "epochs: 0", ":8: 0 epochs train nothing: A needs `start` or `weights`"),
    ("epochs: 2", "epochs: two", ":8: recipe.epochs: .*valid integer, not 'two'"),
    (
        "epochs: 2",
        "optimizer: adm",
        r":8: recipe.optimizer: there is no optimizer 'adm'; did you mean 'adam'",
    ),
    ("{epochs: 2}", "[1]", ":8: recipe: "),
    ("title: t", "titel: t", r":1: unknown key 'titel'; did you mean 'title'\?"),
    ("title: t\n", "", ":1: the key 'title' is missing"),
    ("title: t", "name: t", ":1: the page's file name is its name"),
    (
        "title: t",
        "title: t\nmeasure: {data: [digit]}",
        r":2: digit is not in the study; did you mean 'digits'\?",
    ),
    (
        "[digits]",
        "[digit]",
        r":3: unknown data set 'digit'; did you mean 'digits' or 'digits-28'\?",
    ),
    ("[digits]", "[]", ":3: data: .*at least 1 item"),
    ("model: mlp", "model: mpl", ":5: there is no model 'mpl'.*mlp"),
    ("model: mlp", "modle: mlp", r":5: unknown key .*; did you mean 'model'"),
    ("width: 16", "widht: 16", ":5: .*widht.*width"),
    ("width: 16", "width: wide", ":5: .*width.*'wide'"),
    ("width: 16", "classes: 3", ":5: 'classes' comes from the data set"),
    ("lr: 0.1", "lr: -1", ":6: .*lr.*greater than 0"),
    ("lr: 0.1", "rl: 1", ":6: unknown key 'rl'"),
    ("[3, 1]", "[3, 3]", ":7: seeds: a seed is given twice"),
    ("[3, 1]", "0", ":7: seeds: a count of seeds is at least 1"),
    ("[3, 1]", "1000000000000", ":7: seeds: at most 100,000 seeds"),
    ("[3, 1]", "true", ":7: seeds: "),
    ("batch_size: 32", "batchsize: 32", r":12: unknown key .*; did you mean 'batch_size'\?"),
    ("full:\n", "fulll:\n", r":11: unknown scale 'fulll'; did you mean 'full'\?"),
    ("  smoke: {seeds: [0]}", "  smoke: 3", ":10: a scale is a mapping"),
]


@pytest.mark.parametrize(("right", "wrong", "says"), MISTAKES)
def test_mistakes_name_place_and_nearest(page, right: str, wrong: str, says: str) -> None:
    assert right in PAGE
    scale = None if wrong in {"  smoke: 3", "[1]"} else "full"
    with pytest.raises(UserError, match=says) as caught:
        load(page(PAGE.replace(right, wrong, 1)), scale)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("recipe.epoch=1", "--set recipe.epoch: unknown key 'recipe.epoch'; did you mean 'epochs'"),
        ("entries.A.model=vot", "--set entries.A.model: there is no model 'vot'"),
        ("epochs", "expected key=value"),
        ("=3", "expected key=value"),
        ("a..b=3", "expected key=value"),
        ("threads=0", "--set threads: threads: .*, not 0"),
    ],
)
def test_mistakes_on_the_command_line(page, setting: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load(page(PAGE), None, [setting])


def test_unknown_studies_and_scales(page) -> None:
    with pytest.raises(UserError, match="unknown study 'quickstrat'; did you mean 'quickstart'"):
        load("quickstrat")
    with pytest.raises(UserError, match="no study page at"):
        load("nowhere/x.yaml")
    with pytest.raises(UserError, match="has no scale 'small'"):
        load(page(PAGE), "small")
    with pytest.raises(UserError, match="must name at least one of smoke, small, full"):
        load(page(PAGE.split("scales:")[0]))


MIXED = """\
title: t
question: q
data: [digits, {name: polarity, length: 16}, {name: polarity, length: 24}]
entries:
  Image: {model: mlp}
  Text: {model: bag, recipe: {epochs: 3}}
seeds: 1
recipe: {epochs: 2}
scales: {smoke: {}}
"""


def test_entries_meet_the_data_that_they_can_read(page) -> None:
    study = load(page(MIXED))
    assert [(run.entry, run.dataset) for run in study.runs()] == [
        ("Image", "digits"),
        ("Text", "polarity (length 16)"),
        ("Text", "polarity (length 24)"),
    ]
    lengths = {run.dataset: run.spec.data.length for run in study.runs()}
    assert lengths["polarity (length 24)"] == 24
    assert len({run.key for run in study.runs()}) == 3


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("length: 24", "length: 16", "a data set is given twice"),
        ("length: 24", "image_size: 8", "polarity is a data set of texts and has no image_size"),
        ("length: 24", "lenght: 24", "unknown key .*; did you mean 'length'"),
        ("epochs: 3", "flip: true", ":6: flip has no effect on polarity"),
        ("{epochs: 2}", "{flip: true}", ":8: flip has no effect on polarity"),
        ("[digits, ", "[", "mlp reads images, but polarity is a data set of texts"),
        ("model: bag", "model: vit", ":3: no entry reads texts"),
    ],
)
def test_mistakes_of_mixed_studies(page, right: str, wrong: str, says: str) -> None:
    assert right in MIXED
    with pytest.raises(UserError, match=says):
        load(page(MIXED.replace(right, wrong, 1)))


OWN = """\
title: t
question: q
data: [{name: cifar10, image_size: 64}, mnist]
args: {width: 32, depth: 4}
entries:
  A: {model: mlp}
  B: {model: mlp, args: {width: 8}, data: [cifar10]}
seeds: 1
scales: {smoke: {}}
"""


def test_entries_share_arguments_and_may_name_their_data(page) -> None:
    a, b, c = load(page(OWN)).runs()
    assert [(run.entry, run.dataset, run.spec.data.image_size) for run in (a, b, c)] == [
        ("A", "cifar10", 64),
        ("B", "cifar10", None),
        ("A", "mnist", None),
    ]
    assert a.spec.model.args == {"width": 32, "depth": 4}
    assert b.spec.model.args == {"width": 8, "depth": 4}
    assert load(page(OWN), None, ["entries.B.args.depth=2"]).entries["B"].args == {"width": 8}


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("[cifar10]}", "[cifar100]}", r":7: cifar100 is not in the study; did you mean 'cifar10'"),
        ("[cifar10]}", "[{name: cifar10, length: 9}]}", ":7: cifar10 is .* has no length"),
        ("mnist]", "cifar10]", ":7: cifar10 is twice in the study"),
        ("width: 32", "witdh: 32", ":4: mlp: there is no argument 'witdh'; did you mean 'width'"),
    ],
)
def test_mistakes_of_an_entrys_own_data(page, right: str, wrong: str, says: str) -> None:
    assert right in OWN
    with pytest.raises(UserError, match=says):
        load(page(OWN.replace(right, wrong, 1)))


def test_more_runs_than_anybody_starts_are_refused(page) -> None:
    with pytest.raises(UserError, match="120,000 runs of entries, data and seeds; at most 100,000"):
        load(page(study_page(seeds=60_000)))
