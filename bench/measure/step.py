"""The steps that are timed: a forward pass as in evaluation, or a training step."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.bench.measure.clock import Step
from lightning_bench.bench.spec import Precision
from lightning_bench.bench.store.measurements import Contender, Setting
from lightning_bench.models.registry.example_inputs import example
from lightning_bench.models.registry.model_variant import Variant
from lightning_bench.models.registry.registry import look_up

_DTYPES: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class TimedModel:
    """A model on its device, with inputs that stay there."""

    model: nn.Module
    variant: Variant
    contender: Contender
    setting: Setting

    def inputs(self, batch: int) -> tuple[Tensor, ...]:
        """Made-up inputs: their values don't change what a step costs."""
        made = example(self.variant, batch, **self.contender.args)
        return tuple(each.to(self.setting.device) for each in made)

    def step(self, model: nn.Module, batch: int) -> Step:
        """One step of this setting's mode."""
        make = _infer if self.setting.mode == "infer" else _train
        return make(model, self.inputs(batch), self._autocast())

    def _autocast(self) -> Callable[[], AbstractContextManager[object]]:
        dtype = _DTYPES.get(self.setting.precision)
        if dtype is None:
            return nullcontext
        return lambda: torch.autocast(self.setting.device, dtype)


def make(contender: Contender, setting: Setting) -> TimedModel:
    """Make the model with its weights, on the device."""
    variant = look_up(contender.model)
    model = variant.function(**contender.args).to(setting.device)
    return TimedModel(model, variant, contender, setting)


def _infer(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    autocast: Callable[[], AbstractContextManager[object]],
) -> Step:
    model.eval()

    def step() -> None:
        with torch.inference_mode(), autocast():
            model(*inputs)

    return step


def _train(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    autocast: Callable[[], AbstractContextManager[object]],
) -> Step:
    """Forward, cross-entropy against random classes, backward, one step of AdamW."""
    model.train()
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-6)
    half = next((each.device.type for each in inputs), "cpu") == "cuda"
    scaler = torch.amp.GradScaler(enabled=half and autocast is not nullcontext)
    with torch.no_grad(), autocast():
        classes = model(*inputs).flatten(0, -2)
    targets = torch.randint(classes.shape[-1], classes.shape[:1], device=classes.device)
    del classes

    def step() -> None:
        optimizer.zero_grad()
        with autocast():
            logits = model(*inputs).flatten(0, -2)
            loss = F.cross_entropy(logits.float(), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step
