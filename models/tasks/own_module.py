"""A LightningModule of the user's own: what it is given, what it logs, and whether it runs at all.

Batches are `(images, labels)`, of texts a mapping with the names of transformers' models. It is
trained by its own steps, optimisers and hooks (`bench.run.own_training`).
"""

import contextlib
import importlib
import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from lightning_bench.common.messages import first_line
from lightning_bench.models.errors import ModelError

#: What each tensor of a text batch is called.
TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_EXAMPLES = 4  # of the batch that a module is tried with


def as_batch(inputs: tuple[Tensor, ...], target: Tensor, kind: str) -> Any:
    """A batch as LightningModules are used to it."""
    if kind != "text":
        return inputs[0], target
    return {**dict(zip(TEXT_INPUTS, inputs, strict=False)), "labels": target}


def overrides(module: Any, hook: str) -> bool:
    """Whether a module has a hook of its own, other than Lightning's."""
    found = getattr(type(module), hook, None)
    return found is not None and found.__qualname__ != f"LightningModule.{hook}"


def problem(module: Any) -> str:
    """Why a module can't be trained and scored; empty where nothing speaks against it."""
    for hook in ("training_step", "configure_optimizers", "validation_step"):
        if not overrides(module, hook):
            return f"has no {hook}"
    if not overrides(module, "test_step") and not overrides(module, "predict_step"):
        return "has neither test_step nor predict_step, so that nothing scores it"
    return ""


def try_out(name: str, package: str, module: Any, facts: Mapping[str, int]) -> dict[str, Any]:
    """Run one made-up batch through fit, test and predict; the names that it logs."""
    if wrong := problem(module):
        raise ModelError(f"{name} {wrong}")
    lightning = importlib.import_module(package)
    # A list alone would be one of loaders.
    batches: Any = DataLoader([_made_up(facts)], batch_size=None, collate_fn=lambda batch: batch)  # type: ignore[arg-type]
    logged: dict[str, list[str]] = {}
    quiet = contextlib.redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, quiet, _no_gpu_visible():
        trainer = lightning.Trainer(
            accelerator="cpu", devices=1, fast_dev_run=1, default_root_dir=folder,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        for doing in ("fit", "test", "predict"):
            if doing != "fit" and not overrides(module, f"{doing}_step"):
                continue
            try:
                if doing == "fit":
                    trainer.fit(module, batches, batches)
                else:
                    given = {"verbose": False} if doing == "test" else {}
                    trainer_out = getattr(trainer, doing)(module, batches, **given)
            except (Exception, SystemExit) as error:  # whatever a user's code does
                step = "training or validation" if doing == "fit" else f"its {doing}"
                raise ModelError(
                    f"{name}: {step} fails on a batch: {type(error).__name__}: {first_line(error)}"
                ) from error
            logged[doing] = sorted(trainer.callback_metrics)
            if doing == "predict" and facts.get("classes", 0) > 1:
                labels_and_probabilities(name, trainer_out[0], facts["classes"])
    return {
        "logged": logged["fit"],
        "logged_in_test": logged.get("test", []),
        "predicts": "predict" in logged,
        "manual": not module.automatic_optimization,
    }


@contextlib.contextmanager
def _no_gpu_visible() -> Iterator[None]:
    """Hide all GPUs: Lightning asks each for its generator's state, and so takes memory on each."""
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, ""))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
        os.environ.update(kept)


def labels_and_probabilities(name: str, output: Any, classes: int) -> tuple[Tensor, Tensor | None]:
    """What `predict_step` gave: a class of each example, and perhaps each class's logarithm."""
    if isinstance(output, Mapping):
        keys = ("logits", "probabilities", "probs", "preds")
        known = [output[key] for key in keys if key in output]
        output = known[0] if known else output
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        output = output[0]
    if isinstance(output, Tensor) and output.ndim == 1 and not output.is_floating_point():
        return output, None
    if isinstance(output, Tensor) and output.ndim == 2 and output.shape[1] == classes:
        rows = output.float()
        sums = rows.sum(1)
        shares = bool((rows >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
        return rows.argmax(1), rows.clamp_min(1e-30).log() if shares else rows
    shape = f" of {tuple(output.shape)}" if isinstance(output, Tensor) else ""
    raise ModelError(
        f"{name}: predict_step gives a {type(output).__name__}{shape}, neither a class nor "
        f"{classes} logits an example"
    )


def _made_up(facts: Mapping[str, int]) -> Any:
    target = torch.arange(_EXAMPLES) % max(1, facts.get("classes", 1))
    if "vocab_size" in facts:
        tokens = torch.ones(_EXAMPLES, facts.get("length", 16), dtype=torch.long)
        mask, segments = torch.ones_like(tokens).bool(), torch.zeros_like(tokens)
        return as_batch((tokens, mask, segments), target, "text")
    size = facts["image_size"]
    shape = (facts["channels"], size, size) if size > 1 else (facts["channels"],)  # rows of numbers
    return as_batch((torch.rand(_EXAMPLES, *shape),), target, "image")
