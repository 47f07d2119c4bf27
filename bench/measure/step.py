"""The steps that are timed: a forward pass as in evaluation, or a training step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.bench.spec import Precision
from lightning_bench.bench.store.measurements import Contender, Setting
from lightning_bench.models.registry.example_inputs import example
from lightning_bench.models.registry.model_variant import Variant
from lightning_bench.models.registry.registry import look_up

_AUTOCAST: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class TimedModel:
    """A model on its device."""

    model: nn.Module
    variant: Variant
    contender: Contender
    setting: Setting

    def inputs(self, batch: int) -> tuple[Tensor, ...]:
        """Made-up inputs, made where they stay: their values don't change what a step costs."""
        with torch.device(self.setting.device):
            return example(self.variant, batch, **self.contender.args)

    def step(self, model: nn.Module, batch: int) -> "TimedStep":
        """One step of this setting's mode."""
        make = InferenceStep if self.setting.mode == "infer" else TrainingStep
        return make(model, lambda: self.inputs(batch), self.setting)


def make(contender: Contender, setting: Setting) -> TimedModel:
    """Make the model with its weights, on the device."""
    variant = look_up(contender.model)
    model = variant.function(**contender.args).to(setting.device)
    return TimedModel(model, variant, contender, setting)


class TimedStep(ABC):
    """A step of a model, and the inputs that it holds on the device."""

    def __init__(
        self, model: nn.Module, make_inputs: Callable[[], tuple[Tensor, ...]], setting: Setting
    ) -> None:
        self.model, self._make_inputs = model, make_inputs
        dtype = _AUTOCAST.get(setting.precision)
        self._autocast: Callable[[], AbstractContextManager[object]] = (
            nullcontext if dtype is None else lambda: torch.autocast(setting.device, dtype)
        )
        self._inputs: tuple[Tensor, ...] = ()
        self.make_inputs()

    @abstractmethod
    def __call__(self) -> None:
        """Take the step."""

    def make_inputs(self) -> None:
        """Make the inputs, anew where they were dropped."""
        self._inputs = self._make_inputs()

    def drop_inputs(self) -> None:
        """Drop all that the next step can make anew."""
        self._inputs = ()

    def state(self) -> Iterator[Tensor]:
        """The tensors that live from step to step."""
        yield from self.model.parameters()
        yield from self.model.buffers()


class InferenceStep(TimedStep):
    """A forward pass as in evaluation."""

    def __init__(
        self, model: nn.Module, make_inputs: Callable[[], tuple[Tensor, ...]], setting: Setting
    ) -> None:
        super().__init__(model.eval(), make_inputs, setting)

    def __call__(self) -> None:
        """Take the step."""
        with torch.inference_mode(), self._autocast():
            self.model(*self._inputs)


class TrainingStep(TimedStep):
    """Forward, cross-entropy against random classes, backward, one step of AdamW."""

    def __init__(
        self, model: nn.Module, make_inputs: Callable[[], tuple[Tensor, ...]], setting: Setting
    ) -> None:
        weights = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.AdamW(weights, lr=1e-6)
        # As in training, where fp16 alone needs one.
        self.scaler = torch.amp.GradScaler(setting.device, enabled=setting.precision == "fp16")
        self._predictions: torch.Size | None = None
        self._device = setting.device
        super().__init__(model.train(), make_inputs, setting)

    def __call__(self) -> None:
        """Take the step."""
        self._optimizer.zero_grad()
        with self._autocast():
            logits = self.model(*self._inputs).flatten(0, -2)
            loss = F.cross_entropy(logits.float(), self._targets)
        self.scaler.scale(loss).backward()
        self.scaler.step(self._optimizer)
        self.scaler.update()

    def make_inputs(self) -> None:
        """Make the inputs, and a class for each prediction from them."""
        super().make_inputs()
        if self._predictions is None:
            with torch.no_grad(), self._autocast():
                self._predictions = self.model(*self._inputs).flatten(0, -2).shape
        count, classes = self._predictions
        self._targets = torch.randint(classes, (count,), device=self._device)

    def drop_inputs(self) -> None:
        """Drop the gradients, too."""
        super().drop_inputs()
        self._optimizer.zero_grad()
        del self._targets

    def state(self) -> Iterator[Tensor]:
        """The optimizer's, too."""
        yield from super().state()
        for kept in self._optimizer.state.values():
            yield from (each for each in kept.values() if isinstance(each, Tensor))
