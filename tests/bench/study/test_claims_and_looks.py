"""Named claims and planned looks: every way to write them, and each mistake in one line."""

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study.claims import MEAN, NamedPair, describe, named_pairs
from lightning_bench.bench.study.load import load
from lightning_bench.bench.study.looks import ALPHA, alphas, spent, stops

PAGE = """\
title: t
question: q
data: [digits, mnist]
entries:
  ResNet: {model: mlp}
  MLP: {model: mlp, args: {width: 8}}
  ViT: {model: mlp, args: {width: 9}, data: [digits]}
seeds: 6
scales: {smoke: {}}
"""


@pytest.fixture
def study(page):
    """The study whose page has these lines at its end, in place of its seeds where they say so."""

    def make(text: str, *settings: str):
        kept = PAGE.replace("seeds: 6\n", "") if text.startswith("seeds") else PAGE
        return load(page(kept + text), settings=settings)

    return make


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[ResNet, MLP]", NamedPair("ResNet", "MLP", False, "")),
        ("ResNet > MLP", NamedPair("ResNet", "MLP", True, "")),
        ("{better: MLP, than: ResNet}", NamedPair("MLP", "ResNet", True, "")),
        ("{pair: [MLP, ResNet], on: mnist}", NamedPair("MLP", "ResNet", False, "mnist")),
        ("{better: MLP, than: ResNet, on: mean}", NamedPair("MLP", "ResNet", True, MEAN)),
    ],
)
def test_every_way_to_name_a_pair(study, written: str, meant: NamedPair) -> None:
    assert named_pairs(study(f"claims: [{written}]\n")) == [meant]


def test_a_baseline_is_met_by_every_other_entry(study) -> None:
    for text in ("claims: {baseline: MLP}\n", "claims:\n  - baseline: MLP\n"):
        assert named_pairs(study(text)) == [
            NamedPair("ResNet", "MLP", False, ""),
            NamedPair("ViT", "MLP", False, ""),
        ]
    assert describe(study("claims: [ResNet > MLP, [ViT, MLP]]\n")) == [
        "ResNet > MLP", "[ViT, MLP]",
    ]  # fmt: skip


def test_a_pair_is_tested_where_both_meet_or_where_it_says(study) -> None:
    (pair,) = named_pairs(study("claims: [{pair: [ResNet, MLP], on: digits}]\n"))
    assert [pair.stands_for(title) for title in ("digits", "mnist", None)] == [True, False, False]
    (pair,) = named_pairs(study("claims: [[ResNet, MLP]]\n"))
    assert all(pair.stands_for(title) for title in ("digits", "mnist", None))


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ("[[ResNet, MPL]]", r":10: no entry is called 'MPL'; did you mean 'MLP'\?"),
        ("[Resnet > MLP]", r":10: no entry is called 'Resnet'; did you mean 'ResNet'\?"),
        ("{baseline: ViTs}", r":10: no entry is called 'ViTs'; did you mean 'ViT'\?"),
        ("\n  - [ResNet, MLP]\n  - MLP > ResNet", ":12: MLP and ResNet are named twice"),
        ("\n  - {baseline: MLP}\n  - [ViT, MLP]", ":12: ViT and MLP are named twice"),
        ("[[MLP, MLP]]", ":10: 'MLP' can't be compared with itself"),
        ("[{beter: MLP, than: ViT}]", r":10: unknown key 'claims.0.beter'; did you mean 'better'"),
        ("[ResNet beats ViT]", r":10: claims.0: a claim is \[A, B\], A > B, \{better: A, than: B"),
        ("[{better: MLP}]", r":10: claims.0: a claim is \[A, B\]"),
        ("[[MLP, ViT, ResNet]]", ":10: claims.0: a pair is of two entries"),
        ("[{pair: [ResNet, MLP], on: digit}]", r":10: digit is not in the study; did you mean"),
        ("[{pair: [ResNet, ViT], on: mnist}]", ":10: ResNet and ViT never meet on mnist"),
    ],
)
def test_a_mistake_in_claims_is_a_line_with_its_place(study, claims: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        study(f"claims: {claims}\n")


def test_one_entry_alone_and_no_seeds_can_claim_nothing(page) -> None:
    alone = PAGE.replace("  MLP: {model: mlp, args: {width: 8}}\n", "").replace(
        "  ViT: {model: mlp, args: {width: 9}, data: [digits]}\n", ""
    )
    with pytest.raises(UserError, match="one entry alone"):
        load(page(alone + "claims: {baseline: ResNet}\n"))
    with pytest.raises(UserError, match="without seeds"):
        load(page(PAGE.replace("seeds: 6", "seeds: []") + "claims: [[ResNet, MLP]]\n"))


def test_planned_looks_spend_5_percent_and_each_can_show_something(study) -> None:
    found = study("seeds: {looks: [6, 9, 12]}\n")
    assert found.seeds == list(range(12))
    assert stops(found) == [6, 9, 12]
    assert alphas(found) == pytest.approx({6: 0.03125, 9: 0.01171875, 12: 0.00703125})
    assert alphas(study("seeds: {looks: [10, 20]}\n")) == pytest.approx({10: 0.03125, 20: 0.01875})
    assert alphas(study("seeds: {looks: [6, 9], alpha: [0.04, 0.01]}\n")) == {6: 0.04, 9: 0.01}
    assert alphas(study("")) == {6: ALPHA}
    # Five seeds can show p = 1/32 of named directions, three on the mean of two data sets.
    assert stops(study("seeds: {looks: [5, 8]}\nclaims: [ResNet > MLP]\n")) == [5, 8]
    assert alphas(study("seeds: {looks: [3, 7]}\n"))[3] == pytest.approx(0.03125)
    assert study("seeds: {looks: [6, 9]}\n").with_seeds(6).seeds == list(range(6))


@pytest.mark.parametrize("seeds", [[6, 7, 8], [6, 8, 10, 12], [7, 20], [6, 30, 31, 32, 33]])
def test_default_alphas_add_up_and_are_attainable(seeds: list[int]) -> None:
    least = [2.0 ** (1 - n) for n in seeds]
    found = spent(least)
    assert sum(found) <= ALPHA + 0.02  # beyond is a mistake in the page, as below
    assert all(alpha >= p for alpha, p in zip(found, least, strict=True))
    assert sum(spent([2.0 ** (1 - n) for n in (6, 9, 12)])) == pytest.approx(ALPHA)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ("{looks: [6, 9], alpha: [0.04, 0.02]}", r":9: the looks spend 0.06 in all, and have 0.05"),
        ("{looks: [6, 9], alpha: [0.04]}", ":9: 2 looks spend 2 alphas"),
        ("{looks: [2, 9]}", r":9: a look at 2 seeds can show p = 0.125 at the least, and has 0.05"),
        ("{looks: [6, 7, 8, 9, 10]}", ":9: these looks need 0.0605 in all to show anything"),
        ("{looks: [9, 6]}", ":9: looks are numbers of seeds, each more than the one before"),
        ("{look: [6]}", r":9: unknown key 'look'; did you mean 'looks'\?"),
        ("{grow: 20, looks: [6]}", r":9: seeds are a number, a list, \{looks: \[6, 9, 12\]\}"),
        ("{grow: 20, alpha: [0.05]}", ":9: e-values spend no alpha by look"),
    ],
)
def test_a_mistake_in_looks_is_a_line_with_its_place(study, seeds: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        study(f"seeds: {seeds}\n")


def test_looks_stand_under_seeds_and_nowhere_else(study) -> None:
    with pytest.raises(UserError, match=r":10: looks stand under seeds, as in seeds: \{looks"):
        study("looks: [6, 9]\n")
    assert study("seeds: {looks: [6, 9]}\n", "seeds=20").looks is None
    assert stops(study("seeds: {grow: 9}\n")) == [6, 7, 8, 9]


def test_keys_of_runs_know_nothing_of_claims_and_looks(study) -> None:
    plain = {run.key for run in study("").runs()}
    named = study("seeds: {looks: [6, 9]}\nclaims: [[ResNet, MLP]]\nspread: 0.5\n").with_seeds(6)
    assert {run.key for run in named.runs()} == plain
