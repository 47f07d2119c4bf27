"""Text models: heads, padding, frozen encoders, and an independent implementation."""

from pathlib import Path
from typing import Any

import pytest
import torch
from g_mlp_pytorch import gMLP
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig, BertModel

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.counting import parameters
from lightning_bench.models.registry.registry import create
from lightning_bench.models.weights.load_weights import load_weights
from tests.mirror import MODELS

SMALL = {
    "gmlp-text": {"width": 16, "depth": 2, "hidden": 32},
    "transformer-text": {"width": 16, "depth": 2, "heads": 2, "hidden": 32},
    "lstm": {"width": 16, "depth": 2},
    "bag": {"width": 16, "hidden": 32},
    "bert": {"width": 16, "depth": 2, "heads": 2, "hidden": 32},
    "hf/roberta": {"width": 16, "depth": 2, "heads": 2, "hidden": 32},
}
VARIANTS = [
    *((name, {}) for name in SMALL),
    *(("gmlp-text", {"gate": gate}) for gate in ("linear", "additive", "multiplicative")),
    ("gmlp-text", {"matrix": "toeplitz"}),
    ("gmlp-text", {"attention": 4}),
    *(("gmlp-text", {"pool": pool}) for pool in ("mean", "last")),
]


def make(name: str, **arguments: Any) -> Any:
    """Make a small model whose every weight matters: a spatial matrix starts near zero."""
    torch.manual_seed(0)
    model = create(name, **{"vocab_size": 50, "length": 12, **SMALL[name], **arguments})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize(("name", "arguments"), VARIANTS, ids=str)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_a_padded_batch_gives_the_same_logits_as_each_text_alone(
    name: str, arguments: dict[str, Any], classes: int, data: st.DataObject
) -> None:
    if name == "bag" and not classes:
        pytest.skip("bag has no masked-LM head")
    model = make(name, classes=classes, **arguments)
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=2, max_size=4))
    pad = data.draw(st.integers(0, 49))  # what stands in the pads must not matter
    longest = data.draw(st.integers(max(lengths), 12))
    texts = [torch.randint(2, 50, (1, n)) for n in lengths]
    tokens = torch.full((len(texts), longest), pad)
    mask = torch.zeros(len(texts), longest, dtype=torch.bool)
    for row, text in enumerate(texts):
        tokens[row, : text.shape[1]] = text
        mask[row, : text.shape[1]] = True
    with torch.no_grad():
        together = model(tokens, mask)
        for row, text in enumerate(texts):
            alone = model(text)[0]
            got = together[row] if classes else together[row, : text.shape[1]]
            torch.testing.assert_close(got, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["gmlp-text", "transformer-text", "lstm", "bert", "hf/roberta"])
def test_a_masked_lm_model_becomes_a_classifier_with_the_same_body(name: str) -> None:
    model = make(name, classes=0)
    tokens = torch.randint(2, 50, (2, 12))
    assert model(tokens).shape == (2, 12, 50)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    classifier = create(name, **{"vocab_size": 50, "length": 12, **SMALL[name], "classes": 3})
    load_weights(classifier, before, source="it", same_outputs=False)
    assert classifier.eval()(tokens).shape == (2, 3)
    same = [
        key
        for key, value in classifier.state_dict().items()
        if key in before and value.shape == before[key].shape and torch.equal(value, before[key])
    ]
    assert len(same) > 0.6 * len(before)


def test_the_masked_lm_head_is_tied_to_the_word_vectors() -> None:
    model = make("gmlp-text", classes=0)
    assert model.head.decoder.weight is model.embedding.tokens.weight
    untied = parameters(make("gmlp-text", classes=2)) + (16 + 1) * 16 + 2 * 16 + 50 - 2 * (16 + 1)
    assert parameters(model) == untied


def test_segments_matter() -> None:
    tokens, segments = torch.randint(2, 50, (2, 12)), torch.zeros(2, 12, dtype=torch.long)
    segments[:, 6:] = 1
    for name in ("gmlp-text", "bert", "bag"):
        model = make(name, classes=3)
        first = model(tokens, segments=torch.zeros_like(segments))
        torch.testing.assert_close(model(tokens), first)
        assert not torch.allclose(model(tokens, segments=segments), first)


@pytest.mark.parametrize("kind", ["none", "sinusoidal", "learned"])
def test_without_positions_a_text_is_a_set(kind: Any) -> None:
    model = make("transformer-text", classes=3, pool="mean", positions=kind).eval()
    tokens = torch.randint(2, 50, (4, 12))
    same = torch.allclose(model(tokens), model(tokens.flip(1)), atol=1e-5)
    assert same == (kind == "none")


@pytest.mark.parametrize("name", ["gmlp-text", "transformer-text"])
def test_texts_that_are_too_long_are_a_clear_error(name: str) -> None:
    with pytest.raises(ModelError, match=r"texts of 13 tokens are too long.* made for 12"):
        make(name)(torch.randint(0, 50, (1, 13)))


@pytest.mark.parametrize("attention", [None, 8])
def test_our_text_gmlp_equals_that_of_g_mlp_pytorch(attention: int) -> None:
    torch.manual_seed(0)
    theirs = gMLP(num_tokens=50, dim=16, depth=3, seq_len=12, ff_mult=4, attn_dim=attention).eval()
    ours = create(
        "gmlp-text",
        vocab_size=50,
        length=12,
        width=16,
        depth=3,
        hidden=64,
        attention=attention or 0,
    ).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for parameter in ours.parameters():
            parameter.zero_()  # what theirs has not, the segments and some biases, stays zero
        ours.embedding.tokens.weight.copy_(theirs.to_embed.weight)
        for mine, layer in zip(ours.body.blocks, theirs.layers, strict=True):
            norm, it = layer.fn.norm, layer.fn.fn.fn
            mine.norm.load_state_dict(norm.state_dict())
            mine.u.load_state_dict(it.proj_in[0].state_dict())
            mine.v.load_state_dict(it.proj_out.state_dict())
            mine.gate.f.norm.load_state_dict(it.sgu.norm.state_dict())
            mine.gate.f.spatial.weight.copy_(it.sgu.weight[0])
            mine.gate.f.spatial.bias.copy_(it.sgu.bias[0])
            if attention:
                mine.gate.f.attention.qkv.weight.copy_(it.attn.to_qkv.weight)
                mine.gate.f.attention.project.load_state_dict(it.attn.to_out.state_dict())
        ours.body.norm.load_state_dict(theirs.to_logits[0].state_dict())
        for norm in [ours.body.norm, *(each.norm for each in ours.body.blocks)]:
            norm.eps = 1e-5  # as theirs
        tokens = torch.randint(0, 50, (4, 12))
        mine = ours.body(ours.embedding(tokens, None, None), None)
        wanted = theirs.to_logits[0](torch.nn.Sequential(*theirs.layers)(theirs.to_embed(tokens)))
    torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    torch.manual_seed(1)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=50, intermediate_size=32, **sizes)
    BertModel(config).save_pretrained(tmp_path / "encoder")
    return str(tmp_path / "encoder")


@pytest.mark.parametrize("name", ["gmlp-text", "transformer-text", "lstm", "bag"])
def test_a_frozen_encoder_gives_contextual_embeddings_and_isnt_trained(
    name: str, encoder: str, tmp_path: Path
) -> None:
    model = make(name, classes=3, encoder=encoder).train()
    before = model.embedding.encoder.state_dict()
    before = {key: value.clone() for key, value in before.items()}
    tokens = torch.randint(2, 50, (2, 12))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model(tokens).square().sum().backward()
    optimizer.step()
    assert not model.embedding.encoder.training  # no dropout in the frozen part
    after = model.embedding.encoder.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert model.embedding.project.weight.grad.abs().sum() > 0
    # Its weights are read from their directory again, and are no part of a checkpoint.
    assert not any("encoder." in key for key in model.state_dict())
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    again = create(name, vocab_size=50, length=12, **SMALL[name], classes=3, encoder=encoder)
    again.load_state_dict(torch.load(tmp_path / "weights.pt"))
    again.embedding.encoder.load_state_dict(after)  # `make` put noise on these as well
    torch.testing.assert_close(again.eval()(tokens), model.eval()(tokens))


def test_a_frozen_encoder_reads_words_in_their_context(encoder: str) -> None:
    model = make("bag", classes=3, encoder=encoder)
    one, other = torch.tensor([[5, 6, 7]]), torch.tensor([[5, 9, 7]])
    first = model.embedding(one, None, None)[0, 0]
    assert not torch.allclose(first, model.embedding(other, None, None)[0, 0], atol=1e-3)


@pytest.mark.parametrize("name", ["gmlp-text", "transformer-text", "lstm", "bag"])
def test_all_layers_of_a_frozen_encoder_are_read_side_by_side(name: str, encoder: str) -> None:
    model = make(name, classes=3, encoder=encoder, encoder_layers="all").eval()
    theirs = model.embedding.encoder
    tokens, mask = torch.randint(2, 50, (2, 12)), torch.ones(2, 12, dtype=torch.bool)
    mask[1, 7:] = False
    found = model.embedding.encode(tokens, mask, None).view(2, 12, 3, 24)
    x = theirs.embeddings(tokens)
    torch.testing.assert_close(found[:, :, 0], x)
    for place, layer in enumerate(theirs.encoder.layer, 1):
        x = layer(x, mask[:, None, None, :])
        x = x[0] if isinstance(x, tuple) else x
        torch.testing.assert_close(found[:, :, place][mask], x[mask])
    logits = model(tokens, mask)
    assert logits.shape == (2, 3)
    torch.testing.assert_close(logits[1:], model(tokens[1:, :7]), rtol=1e-4, atol=1e-5)


def test_a_frozen_encoder_that_doesnt_fit_is_a_clear_error(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match="knows 50 tokens, the data has 51"):
        create("gmlp-text-18", vocab_size=51, classes=2, encoder=encoder)
    with pytest.raises(ModelError, match="word vectors of its own"):
        create("gmlp-text-18", vocab_size=50, encoder=encoder)
    with pytest.raises(ModelError, match="encoder_layers='all' needs a frozen encoder"):
        create("gmlp-text-18", classes=2, encoder_layers="all")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="can't be loaded"):
        create("gmlp-text-18", classes=2, encoder=str(tmp_path / "empty"))


def test_weights_of_transformers_are_loaded(encoder: str) -> None:
    model = create("hf/bert", vocab_size=50, classes=2, weights=encoder)
    saved = BertModel.from_pretrained(encoder).state_dict()
    key = "embeddings.word_embeddings.weight"
    assert torch.equal(model.model.base_model.state_dict()[key], saved[key])


def test_a_real_encoder_if_one_is_at_hand() -> None:
    if MODELS is None or not (MODELS / "all-MiniLM-L6-v2").is_dir():
        pytest.skip("BENCH_MODELS names no directory with all-MiniLM-L6-v2")
    encoder = str(MODELS / "all-MiniLM-L6-v2")
    model = create("gmlp-text-18", classes=2, length=16, encoder=encoder).eval()
    tokens = torch.randint(1000, 2000, (2, 16))
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[0, 9:] = False
    with torch.no_grad():
        torch.testing.assert_close(
            model(tokens, mask)[0], model(tokens[:1, :9])[0], rtol=1e-3, atol=1e-3
        )


def test_bag_has_no_masked_lm_head_and_says_so() -> None:
    with pytest.raises(ModelError, match="bag has no masked-LM head"):
        create("bag", classes=0)
