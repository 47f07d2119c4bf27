"""Data that the user's own code gives: what is taken of them, and what the seed decides."""

import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.run import training
from lightning_bench.bench.spec import DataSpec, RunSpec
from lightning_bench.bench.study import inputs
from lightning_bench.bench.study.load import load
from lightning_bench.data import checks
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules import user_data_module
from lightning_bench.data.modules.contract import make
from lightning_bench.data.sources import user_data
from lightning_bench.models.registry import counting
from lightning_bench.models.tasks.own_module import as_batch
from tests import factory

MODULE = "tests.bench.user_datasets"


@pytest.fixture
def told_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Facts told by this process, which is as well as by a child and takes no seconds."""
    inputs.forget_datasets()
    _, import_module = user_data._connected[0]
    monkeypatch.setattr(user_data, "_connected", [(user_data_module.facts, import_module)])
    yield
    inputs.forget_datasets()


def entry(name: str, **args: Any) -> DataSet:
    return inputs.dataset_of(DataSpec(name=f"{MODULE}:{name}", args=args))


def module(of: DataSet, **options: Any) -> Any:
    data = make(of, recipe={}, **{"batch_size": 10, "seed": 0, **options})
    data.setup()
    return data


@pytest.mark.usefixtures("told_here")
def test_what_is_in_a_lightning_data_module() -> None:
    of = entry("Blobs")
    assert (of.kind, of.channels, of.image_size, of.classes) == ("image", 1, 8, 3)
    assert of.splits == {"train": 80, "val": 20, "test": 20}
    batches = list(module(of).train_dataloader())
    assert [len(batch.target) for batch in batches] == [10] * 8  # the recipe's, not its own
    assert not of.user_draws


@pytest.mark.usefixtures("told_here")
def test_datasets_by_the_names_of_their_splits_are_taken_too() -> None:
    of = entry("mapping")
    assert (of.kind, of.task, of.channels, of.classes) == ("table", "regress", 5, 1)
    assert of.tests == ("test", "shifted")
    data = module(of)
    assert [len(list(loader)) for loader in data.test_dataloader()] == [4, 2]


@pytest.mark.usefixtures("told_here")
@pytest.mark.parametrize("noisy", [False, True])
def test_it_keeps_the_contract_of_data(noisy: bool) -> None:
    results, sheet = checks.check(entry("Blobs", noisy=noisy))
    failed = [result for result in results if result.status == "failed"]
    assert not failed
    assert "data:image" in sheet


@pytest.mark.usefixtures("told_here")
def test_what_an_example_draws_follows_the_seed_the_epoch_and_the_example() -> None:
    of = entry("Blobs", noisy=True)
    assert of.user_draws

    def epoch(number: int, *, before: int = 0, **options: Any) -> dict[int, float]:
        torch.rand(before)  # whatever else drew from the global generator
        loader = module(of, **options).train_dataloader()
        loader.sampler.set_epoch(number)
        rows = [(batch.indices, batch.inputs[0]) for batch in loader]
        return {int(i): float(x.sum()) for ids, xs in rows for i, x in zip(ids, xs, strict=True)}

    plain = epoch(0)
    assert epoch(0, before=5) == plain
    assert epoch(0, batch_size=40) == plain  # whoever is beside it in a batch
    halves = [epoch(0, rank=rank, world_size=2) for rank in (0, 1)]
    assert halves[0] | halves[1] == plain
    assert epoch(1) != plain
    assert epoch(0, seed=1) != plain
    state = torch.get_rng_state()
    list(module(of).train_dataloader())
    assert torch.equal(torch.get_rng_state(), state)  # that of dropout is left as it was


@pytest.mark.usefixtures("told_here")
def test_the_fingerprint_is_of_the_content() -> None:
    plain = module(entry("Blobs")).fingerprint
    assert module(entry("Blobs"), seed=3).fingerprint == plain
    assert module(entry("Blobs", scale=2.0)).fingerprint != plain
    noisy = module(entry("Blobs", noisy=True)).fingerprint
    assert module(entry("Blobs", noisy=True), seed=3).fingerprint == noisy != plain


@pytest.mark.usefixtures("told_here")
def test_a_trial_never_sees_the_test() -> None:
    data = make(entry("Blobs"), recipe={}, batch_size=4, seed=0)
    data.setup("fit")
    assert data.sizes == {"train": 80, "val": 20}


@pytest.mark.usefixtures("told_here")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Weighted", "train has a WeightedRandomSampler, whose order would not be the run's"),
        ("NoTest", "gives no test split (test)"),
        ("streamed", "train is a Stream without an order of its own"),
        ("own_generator", "another one each time it is read"),
        ("three_parts", "a batch is (Tensor, Tensor, Tensor); give (input, target)"),
        ("oblong", "an input is 1×8×6"),
        ("negative", "a label is -1"),
        ("a_list", "gives a list, neither a LightningDataModule nor a mapping"),
        ("needs", "needs 'place': say so, as in args: {place: …}"),
        ("fails", "RuntimeError: no such server (user_datasets.py:"),
        ("nothing", "the module has nothing to call by this name"),
    ],
)
def test_what_can_not_be_trained_on_is_refused_in_one_line(name: str, says: str) -> None:
    with pytest.raises(DataError, match=re.escape(says)) as caught:
        entry(name)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("told_here")
def test_arguments_are_checked_and_belong_to_the_key() -> None:
    with pytest.raises(DataError, match=r"has no argument 'nosy'; it has data_dir, noisy"):
        entry("Blobs", nosy=True)
    with pytest.raises(DataError, match="is no module:callable, and takes no args"):
        inputs.dataset_of(DataSpec(name="digits", args={"noisy": True}))
    with pytest.raises(DataError, match="image size is up to its code"):
        inputs.dataset_of(DataSpec(name=f"{MODULE}:Blobs", image_size=16))
    plain, noisy = (
        factory.spec("mlp", {"name": f"{MODULE}:Blobs", "args": args}).key
        for args in ({}, {"noisy": True})
    )
    assert plain != noisy
    assert factory.spec("mlp", {"name": f"{MODULE}:Blobs"}).key == plain


@pytest.mark.usefixtures("told_here")
def test_a_run_trains_on_it() -> None:
    of: RunSpec = factory.spec(
        "mlp", f"{MODULE}:Blobs", None, {"epochs": 6, "batch_size": 10, "lr": 0.001}
    )
    outcomes = [
        training.train(of, device="cpu", on_epoch=lambda _: None, keep_weights=True)
        for _ in range(2)
    ]
    assert outcomes[0].metrics["accuracy"] > 0.9
    assert outcomes[0].metrics == outcomes[1].metrics
    assert (outcomes[0].data.train, outcomes[0].scored) == (80, 20)


def test_rows_of_numbers_are_given_as_rows() -> None:
    facts = {"channels": 5, "image_size": 1, "classes": 2}
    tried = counting.count_one("tests.bench.own_modules:OfRows", facts)
    assert tried["parameters"] == 5 * 2 + 2
    rows, target = torch.zeros(3, 5), torch.zeros(3)
    assert as_batch((rows,), target, "table") == (rows, target)


DATA = """
    from pathlib import Path

    import torch
    from torch.utils.data import TensorDataset

    def numbers(data_dir):
        print("not JSON")
        lines = (Path(data_dir) / "numbers.txt").read_text().split()
        x = torch.tensor([float(n) for n in lines]).repeat(3, 1).T.contiguous()
        part = TensorDataset(x, (x[:, 0] > 0).long())
        return {"train": part, "val": part, "test": part}
"""
PAGE = """
    title: T
    question: Q?
    data: [{name: Mine, source: my_data:numbers, args: {data_dir: files}}]
    entries: {MLP: {model: mlp}}
    seeds: 1
    scales: {smoke: {}}
"""


def test_a_page_names_it_and_a_changed_file_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "numbers.txt").write_text("1 -1 2 -2")
    (tmp_path / "my_data.py").write_text(textwrap.dedent(DATA))
    (tmp_path / "page.yaml").write_text(textwrap.dedent(PAGE))
    monkeypatch.chdir(os.sep)  # a path starts at the page's folder
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BENCH_PAGE_FOLDER", str(tmp_path))
    inputs.forget_datasets()
    study = load(str(tmp_path / "page.yaml"))
    ((title, of),) = study.datasets.items()
    assert (title, of.splits["train"], of.kind) == ("Mine", 4, "table")
    assert "my_data" not in sys.modules  # the command imports none of it
    (run,) = study.runs()
    before = source_digests.of_run(run.spec)
    assert "./my_data.py" in before
    (tmp_path / "files" / "numbers.txt").write_text("1 -1 2 -2 3")
    inputs.forget_datasets()
    source_digests._of_run.cache_clear()
    changed = load(str(tmp_path / "page.yaml"))
    assert changed.datasets["Mine"].splits["train"] == 5
    after = source_digests.of_run(changed.runs()[0].spec)
    assert source_digests.changed(before, after) == ["data/catalogue.py:my_data:numbers"]
    (tmp_path / "my_data.py").write_text("def numbers(data_dir): return 3\n")
    inputs.forget_datasets()
    with pytest.raises(UserError, match=r"page.yaml:4.*gives a int, neither"):
        load(str(tmp_path / "page.yaml"))
