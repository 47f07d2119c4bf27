"""Masked words and next sentences at once: the loss, its parts, its scores, and both heads."""

import math

import pytest
import torch
import torch.nn.functional as F

from lightning_bench.data.batch import Batch
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import registry
from lightning_bench.models.tasks.optimisation import Optimisation
from lightning_bench.models.tasks.pretrain import Pretrain, SumOfMeans, apart
from lightning_bench.models.tasks.training_steps import weighted
from lightning_bench.models.weights.heads import add_pair_head, head_modules

WORDS, PAIRS, LENGTH = 50, 6, 9
NARROW = {"vocab_size": WORDS, "length": 16, "classes": 0, "width": 16, "depth": 1, "hidden": 32}


def made(name: str = "gmlp-text", **more) -> torch.nn.Module:
    torch.manual_seed(0)
    model = registry.create(name, **NARROW, **more)
    add_pair_head(model)
    return model


def batch(count: int = PAIRS, seed: int = 0) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(5, WORDS, (count, LENGTH), generator=draw)
    target = torch.where(torch.rand(count, LENGTH, generator=draw) < 0.3, tokens, -100)
    target[:, 1] = tokens[:, 1]
    target[:, 0] = torch.randint(2, (count,), generator=draw)
    segments = (torch.arange(LENGTH) > 4).long().expand(count, -1)
    inputs = (tokens, torch.ones_like(tokens, dtype=torch.bool), segments)
    return Batch(inputs, target, torch.arange(count), count)


def task(model: torch.nn.Module) -> Pretrain:
    return Pretrain(model, optimisation=Optimisation(), metrics=("perplexity",))


@pytest.mark.parametrize(("name", "more"), [("gmlp-text", {}), ("bert", {"heads": 2})])
def test_both_heads_are_trained_and_read(name: str, more: dict) -> None:
    model = made(name, **more)
    given = batch()
    words, pairs = model(*given.inputs)
    assert words.shape == (PAIRS, LENGTH, WORDS)
    assert pairs.shape == (PAIRS, 2)
    loss = task(model).batch_loss(given).sum()
    label, tokens = apart(given.target)
    expected = F.cross_entropy(words.transpose(1, 2), tokens) + F.cross_entropy(pairs, label)
    if name == "gmlp-text":  # BERT drops out
        assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    assert head_modules(model)


def test_parts_of_a_batch_add_up_to_it() -> None:
    joint, given = task(made()), batch()
    whole = joint.batch_loss(given).sum()
    total = joint.terms(given.target)
    assert total.tolist() == [(apart(given.target)[1] != -100).sum(), PAIRS]
    pieces = [
        Batch(tuple(x[part] for x in given.inputs), given.target[part], given.indices[part], PAIRS)
        for part in (slice(0, 1), slice(1, PAIRS))
    ]
    added = sum(
        weighted(joint.batch_loss(piece), joint.terms(piece.target) / total) for piece in pieces
    )
    assert added.item() == pytest.approx(whole.item(), rel=1e-5)


def test_scores_are_those_of_all_tokens_and_all_pairs() -> None:
    joint = task(made()).eval()
    given = [batch(4, seed=1), batch(2, seed=2)._replace(indices=torch.arange(4, 6))]
    with torch.no_grad():
        for part in given:
            joint.validation_step(part, 0)
        outputs = [joint.model(*part.inputs) for part in given]
    found = joint.scores(joint.val_predictions.compute())
    wanted = torch.cat([apart(part.target)[1].flatten() for part in given])
    logits = torch.cat([words.flatten(0, 1) for words, _ in outputs])
    label = torch.cat([part.target[:, 0] for part in given])
    pairs = torch.cat([pairs for _, pairs in outputs])
    mean = F.cross_entropy(logits, wanted).item()
    right = (logits.argmax(-1) == wanted)[wanted != -100].double().mean().item()
    assert found["perplexity"] == pytest.approx(math.exp(mean), rel=1e-5)
    assert found["masked_accuracy"] == pytest.approx(right)
    assert found["nsp_accuracy"] == (pairs.argmax(-1) == label).double().mean().item()
    together = mean + F.cross_entropy(pairs, label).item()
    assert joint.val_loss.compute().item() == pytest.approx(together, rel=1e-5)
    assert isinstance(joint.test_losses[0], SumOfMeans)


def test_a_model_without_such_heads_is_refused() -> None:
    with pytest.raises(ModelError, match="classes=0"):
        add_pair_head(registry.create("gmlp-text", **{**NARROW, "classes": 2}))
    with pytest.raises(ModelError, match="can't have a head for pairs"):
        add_pair_head(torch.nn.Linear(2, 2))
