"""What a frozen encoder says, kept: the same numbers, once computed, and never a stale one."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.run import encoder_cache
from lightning_bench.bench.run.initial_weights import file_digest
from lightning_bench.bench.run.loading import load
from lightning_bench.bench.run.precision import set_float32_precision
from lightning_bench.bench.run.training import train
from lightning_bench.bench.spec import ModelSpec, RunSpec
from lightning_bench.bench.store.store import Store
from lightning_bench.models.layers.text.cached_states import CachedStates
from lightning_bench.models.layers.text.text_model import TextModel
from lightning_bench.models.registry.registry import create
from tests import factory
from tests.commands import bench

#: Half precision keeps 11 bits: of states around 1, and of logits behind them.
TOLERANCE = 2e-3


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(1)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    folder = tmp_path_factory.mktemp("models") / "encoder"
    BertModel(BertConfig(vocab_size=200, intermediate_size=32, **sizes)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))


def spec(encoder: str, **changes: object) -> RunSpec:
    args = {"width": 16, "depth": 2, "hidden": 32, "pool": "mean", "encoder": encoder}
    recipe = {"epochs": 1, "lr": 3e-3}
    return factory.spec("gmlp-text", "entailment", args, recipe, **changes)


def made(encoder: str, layers: str = "last") -> tuple[TextModel, object]:
    """A model whose spatial matrices are not near zero, and its data."""
    of = spec(encoder)
    data = load(of)
    torch.manual_seed(0)
    model = create("gmlp-text", **data.facts(), **of.model.args, encoder_layers=layers)
    assert isinstance(model, TextModel)
    with torch.no_grad():
        for weight in model.body.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    return model.eval(), data


def states(folder: Path) -> Path:
    (found,) = folder.glob("cache/data/entailment-states-*-*/states.npy")
    return found


def said(model: TextModel) -> list[int]:
    """How often the encoder is asked, from now on."""
    asked: list[int] = []
    model.embedding.encoder.register_forward_hook(lambda *_: asked.append(1))
    return asked


@pytest.mark.parametrize(("layers", "size"), [("last", "5.5 MB"), ("all", "16.4 MB")])
def test_the_logits_are_the_same_and_the_encoder_is_not_asked_again(
    layers: str, size: str, encoder: str, capsys
) -> None:
    model, data = made(encoder, layers)
    before = sum(p.numel() for p in model.parameters()), model.state_dict().keys()
    encoder_cache.attach(model, data, "cpu")
    assert (sum(p.numel() for p in model.parameters()), model.state_dict().keys()) == before
    assert f"the encoder's states of 7,800 texts take {size} in" in capsys.readouterr().out
    memory, asked, batches = model.embedding.cached_states, said(model), 0
    for loader in (data.train_dataloader(), data.val_dataloader(), *data.test_dataloader()):
        for batch in loader:
            model.embedding.cached_states = memory
            with torch.no_grad():
                kept = model(*batch.inputs)
                assert len(asked) == batches
                model.embedding.cached_states = None
                torch.testing.assert_close(
                    kept, model(*batch.inputs), rtol=TOLERANCE, atol=TOLERANCE
                )
            batches += 1
    assert batches > 50


def test_all_layers_are_kept_apart_from_the_last(encoder: str, tmp_path: Path) -> None:
    for layers in ("last", "all", "last", "all"):
        encoder_cache.attach(*made(encoder, layers), "cpu")
    assert len([*tmp_path.glob("cache/data/entailment-states-*-*/states.npy")]) == 2


def test_a_text_that_is_not_known_is_read(encoder: str) -> None:
    model, data = made(encoder)
    tokens, mask, segments = next(iter(data.val_dataloader())).inputs
    other = tokens.clone()
    other[3, 2] = tokens[3, 2] % 40 + 10
    assert not torch.equal(other, tokens)
    without = model(other, mask, segments), model(tokens, mask, 1 - segments)
    encoder_cache.attach(model, data, "cpu")
    asked = said(model)
    assert torch.equal(model(other, mask, segments), without[0])
    assert torch.equal(model(tokens, mask, 1 - segments), without[1])  # the parts count too
    assert len(asked) == 2


def test_equal_hashes_give_no_text_another_s_states() -> None:
    signs = torch.tensor([4, 6, 8, 4, 10, 12], dtype=torch.int32)
    memory = CachedStates(signs, torch.tensor([0, 3, 6]), torch.arange(12.0).view(6, 2).half())
    one, seen = torch.tensor([[4, 10, 12]]), torch.ones(1, 3, dtype=torch.bool)
    assert memory.find(one, seen).tolist() == [[[6, 7], [8, 9], [10, 11]]]
    memory._hashes[:] = memory._hashes[memory._texts == 1]  # as if they collided
    assert memory.find(torch.tensor([[4, 6, 12]]), seen) is None
    assert memory.find(one, torch.tensor([[True, True, False]])) is None


def test_an_encoder_that_is_trained_is_asked(encoder: str) -> None:
    model, data = made(encoder)
    encoder_cache.attach(model, data, "cpu")
    inputs, asked = next(iter(data.val_dataloader())).inputs, said(model)
    model(*inputs)
    assert not asked
    model.embedding.encoder.requires_grad_(True)
    model(*inputs)
    model.embedding.encoder.requires_grad_(False).train()
    model(*inputs)
    assert len(asked) == 2


@pytest.mark.parametrize("harm", ["a bit", "cut", "facts", "gone"])
def test_what_is_damaged_is_made_anew(harm: str, encoder: str, tmp_path: Path) -> None:
    model, data = made(encoder)
    encoder_cache.attach(model, data, "cpu")
    path = states(tmp_path)
    whole = path.read_bytes()
    if harm == "a bit":
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    elif harm == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif harm == "facts":
        (path.parent / "facts.json").write_text("{")
    else:
        path.unlink()
    (path.parent.parent / f".{path.parent.name[:-13]}-killed").mkdir()  # by a killed process
    asked = said(model)
    encoder_cache.attach(model, data, "cpu")
    assert asked
    assert states(tmp_path).read_bytes() == whole
    assert not list(path.parent.parent.glob(".*"))
    asked.clear()
    encoder_cache.attach(model, data, "cpu")
    assert not asked


def test_the_number_of_cores_changes_no_bit(encoder: str, tmp_path: Path, monkeypatch) -> None:
    found = []
    for cores in (1, 3):
        affinities = lambda _, n=cores: set(range(n))  # noqa: E731
        monkeypatch.setattr(os, "sched_getaffinity", affinities, raising=False)
        model, data = made(encoder)
        encoder_cache.attach(model, data, "cpu")
        found.append(states(tmp_path).read_bytes())
        shutil.rmtree(tmp_path / "cache")
    assert found[0] == found[1]


@pytest.fixture
def second_gpu(monkeypatch) -> list[torch.device]:
    """CUDA as local rank 1 has it: its main thread's current device is the second, that of any
    other thread the first. Tensors stay where they are; the devices that were asked for."""
    current, asked = threading.local(), []
    current.index = 1

    def move(moved: torch.Tensor | torch.nn.Module, *to: object, **options: object) -> object:
        if not to or not isinstance(to[0], str | torch.device):
            return real[type(moved)](moved, *to, **options)
        device = torch.device(to[0])
        if device.type == "cuda":
            index = getattr(current, "index", 0) if device.index is None else device.index
            asked.append(torch.device("cuda", index))
        return moved

    real = {torch.Tensor: torch.Tensor.to}
    monkeypatch.setattr(torch.Tensor, "to", move)
    monkeypatch.setattr(torch.nn.Module, "to", move)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current.index)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index}")
    return asked


def test_the_texts_go_to_the_gpu_of_the_rank_where_its_encoder_is(
    encoder: str, second_gpu: list[torch.device]
) -> None:
    encoder_cache.attach(*made(encoder), "cuda")
    assert len(second_gpu) > 100
    assert set(second_gpu) == {torch.device("cuda", 1)}


def test_each_kind_of_device_has_states_of_its_own(
    encoder: str, second_gpu: list[torch.device]
) -> None:
    model, data = made(encoder)
    facts = [
        encoder_cache._made_from(model.embedding, data, torch.device(device))
        for device in ("cpu", "cuda:0", "cuda:1")
    ]
    # As before there were GPUs: what CPUs have computed stays good.
    assert sorted(facts[0]) == ["encoder", "format", "settings", "texts", "versions"]
    assert [fact.get("device") for fact in facts] == [None, "GPU 0", "GPU 1"]
    set_float32_precision("tf32", "cuda")
    try:
        assert encoder_cache._made_from(model.embedding, data, torch.device("cuda:0")) != facts[1]
    finally:
        set_float32_precision("fp32", "cuda")


def test_another_encoder_or_another_data_set_has_a_file_of_its_own(
    encoder: str, tmp_path: Path
) -> None:
    model, data = made(encoder)
    encoder_cache.attach(model, data, "cpu")
    with torch.no_grad():
        next(model.embedding.encoder.parameters())[0, 0] += 1
    encoder_cache.attach(model, data, "cpu")
    assert len(list(tmp_path.glob("cache/data/entailment-states-*-*"))) == 2


def test_what_is_too_large_is_computed_and_said(encoder: str, monkeypatch, capsys) -> None:
    model, data = made(encoder)
    for free, most, says in ((10**6, 2**40, "half the room"), (10**12, 10**5, "100.0 kB are the")):
        monkeypatch.setattr(encoder_cache, "MOST_BYTES", most)
        usage = shutil._ntuple_diskusage(10**12, 0, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
        encoder_cache.attach(model, data, "cpu")
        assert model.embedding.cached_states is None
        line = capsys.readouterr().out
        assert "are computed in every epoch, since they would take " in line
        assert says in line
        assert line.count("\n") == 1


def test_a_run_counts_and_scores_as_without(encoder: str, monkeypatch) -> None:
    def run() -> tuple[int, int, float]:
        outcome = train(spec(encoder, seed=1), device="cpu", on_epoch=lambda _: None)
        return outcome.parameters, outcome.trainable_parameters, outcome.metrics["loss"]

    kept = run()
    monkeypatch.setattr(encoder_cache, "MOST_BYTES", 0)
    computed = run()
    assert kept[:2] == computed[:2]
    assert kept[2] == pytest.approx(computed[2], rel=0.02)


def test_what_keeps_the_states_is_among_the_sources_of_such_a_run(encoder: str) -> None:
    assert "bench/encoder_cache.py" in source_digests.of_run(spec(encoder))
    plain = spec(encoder).model_copy(update={"model": ModelSpec(name="gmlp-text")})
    assert "bench/encoder_cache.py" not in source_digests.of_run(plain)


PAGE = """\
title: On frozen embeddings
question: Which?
data: [entailment]
entries:
  Split: {{model: gmlp-text, args: {{encoder: "{encoder}"}}}}
  Toeplitz: {{model: gmlp-text, args: {{encoder: "{encoder}", matrix: toeplitz}}}}
args: {{width: 16, depth: 1, hidden: 32}}
recipe: {{epochs: 1, lr: 3e-3}}
seeds: 1
scales: {{smoke: {{}}}}
"""


def test_runs_at_once_share_the_states_and_record_whose_they_are(
    encoder: str, tmp_path: Path
) -> None:
    (tmp_path / "page.yaml").write_text(PAGE.format(encoder=encoder), encoding="utf-8")
    offline = {"HF_HUB_OFFLINE": "1"}
    done = bench("run", "page.yaml", "--jobs", "2", cwd=tmp_path, env=offline)
    assert done.returncode == 0, done.stdout + done.stderr
    states(tmp_path)  # one folder alone
    digest = file_digest(Path(encoder) / "model.safetensors")
    for attempt in Store(tmp_path / "bench-store").scan().values():
        assert attempt.record is not None
        assert attempt.record.checkpoints == {encoder: digest}
        assert "the encoder's states of 7,800 texts" in (attempt.folder / "log.txt").read_text()


def test_what_is_kept_for_trials_has_no_test_split(encoder: str, tmp_path: Path) -> None:
    trial, tested = (
        train(spec(encoder, tested=tested), device="cpu", on_epoch=lambda _: None)
        for tested in (False, True)
    )
    assert trial.curve == tested.curve
    assert tested.scored > trial.scored == 0
    assert len(list(tmp_path.glob("cache/data/entailment-states-*-*/states.npy"))) == 2


def test_seeds_that_draw_other_splits_of_the_same_texts_share_one_file(encoder: str) -> None:
    kept = []
    for order in (("train", "val", "test"), ("val", "test", "train")):
        model, data = made(encoder)
        data.entry = replace(data.entry, split="validation")
        data.fingerprint = "-".join(order)
        dealt = zip(("train", "val", "test"), order, strict=True)
        data.splits = {name: data.splits[other] for name, other in dealt}
        encoder_cache.attach(model, data, "cpu")
        assert isinstance(model.embedding.cached_states, CachedStates)
        found = Path(os.environ["BENCH_CACHE"]).rglob("*-states-*")
        kept.append(sorted(path.name for path in found if path.is_dir()))
    assert len(kept[0]) == 1
    assert kept[0] == kept[1]
