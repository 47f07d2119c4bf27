"""Every page has seeds enough for a claim at each scale, or says in its head why it makes none."""

import re

import pytest

from lightning_bench import studies
from lightning_bench.bench.study.claims import named_pairs
from lightning_bench.bench.study.load import load
from lightning_bench.bench.study.load import scales as scales_of
from lightning_bench.bench.study.study import Study
from lightning_bench.reports.statistics.inference import blocks_needed
from tests.studies.test_pages import one_line


def blocks(study: Study) -> int:
    """The most blocks of any comparison of two entries: seeds, or on the mean seeds × data sets.

    What a stage shows is one run for all seeds.
    """
    met: dict[str, set[str]] = {
        label: {title for title, (spec, _) in entry.data.items() if not entry.shown_stage(spec)}
        for label, entry in study.resolved.items()
    }
    several = [sum(title in titles for titles in met.values()) > 1 for title in study.datasets]
    everywhere = sum(titles == set(study.datasets) for titles in met.values())
    one_metric = len({dataset.reported[0] for dataset in study.datasets.values()}) == 1
    seeds = len(study.seeds) if any(several) else 0
    return seeds * (len(study.datasets) if everywhere > 1 and one_metric else 1)


def unclaimed(name: str) -> set[str]:
    """The scales at which the head says that there is no claim, and why."""
    said = re.findall(
        r"No claim at ((?:smoke|small|full)(?:, (?:small|full))*): \w", one_line(name)
    )
    return {scale for scales in said for scale in scales.split(", ")}


@pytest.mark.parametrize("name", sorted(studies.pages()))
def test_a_page_has_seeds_enough_for_a_claim_or_says_why_it_makes_none(name: str) -> None:
    silent = set()
    for scale in scales_of(studies.pages()[name]):
        study = load(name, scale)
        named = named_pairs(study)
        directed = bool(named) and all(pair.directed for pair in named)
        if study.seeds and blocks(study) < blocks_needed(one_sided=directed):
            silent.add(scale)
    assert silent == unclaimed(name)


def test_pages_name_the_claims_that_their_documents_make() -> None:
    names = ("mixer-finetuning", "text-embeddings", "text-embeddings-tuned")
    with_claims = {
        (name, scale): len(load(name, scale).claims)
        for name in names
        for scale in scales_of(studies.pages()[name])
        if load(name, scale).claims
    }
    assert with_claims == {
        **{("mixer-finetuning", scale): 3 for scale in ("smoke", "small", "full")},
        **{(name, scale): 3 for name in names[1:] for scale in ("small", "full")},
    }
