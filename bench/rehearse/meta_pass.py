"""The rehearsal of a case on the meta device: shapes, types and memory of a step, without memory.

Where a model looks at values, which have none there (BERT at its mask), torch's fake tensors take
its place: they are on the CPU by name. Where it looks at them still, only the CPU can tell.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from lightning_bench.bench.rehearse.compat import DYNAMIC, FakeTensorMode
from lightning_bench.bench.rehearse.doing import Doing
from lightning_bench.bench.run.loading import make_task
from lightning_bench.bench.spec import Recipe, RunSpec
from lightning_bench.data.dataset import DataSet
from lightning_bench.models.registry import registry
from lightning_bench.models.tasks.freezing import freeze_body
from lightning_bench.models.tasks.layer_decay import layers
from lightning_bench.models.tasks.task import Task
from lightning_bench.models.tasks.training_steps import Batch
from lightning_bench.models.weights.heads import add_pair_head
from lightning_bench.models.weights.load_weights import load_weights

#: Numbers that an optimiser keeps for each weight.
_STATES = {"sgd": 1, "adagrad": 1}

#: Initial weights of a model on the device, with a name, and whether the head is taken, too.
Weights = tuple[Mapping[str, Tensor], str, bool]


class NeedsValues(Exception):
    """A model looks at the values of tensors, of which there are none here."""


@dataclass(frozen=True)
class TrainingStepCost:
    """What a training step takes, as far as shapes tell."""

    flops: int
    bytes: int  # weights, gradients, the optimiser's, and what is kept for the backward pass
    parameters: int


def run(
    spec: RunSpec,
    entry: DataSet,
    batches: Mapping[str, Batch],
    weights: Callable[[str], Weights | None],
    doing: Doing,
) -> TrainingStepCost:
    """A training step and the batches of evaluation; `weights` makes them on a named device."""
    try:
        return _run(spec, entry, batches, weights, doing, "meta")
    except NeedsValues:
        return _run(spec, entry, batches, weights, doing, "fake")


def _run(
    spec: RunSpec,
    entry: DataSet,
    batches: Mapping[str, Batch],
    weights: Callable[[str], Weights | None],
    doing: Doing,
    device: str,
) -> TrainingStepCost:
    mode = _on(device)
    with _values_needed(), mode:
        doing.now = "model"
        model = registry.create(spec.model.name, **{**entry.facts(), **spec.model.args})
        if entry.task == "pretrain":
            add_pair_head(model)
        doing.now = "weights"
        if (initial := weights("meta" if device == "meta" else "cpu")) is not None:
            state, source, same_outputs = initial
            load_weights(model, state, source=source, same_outputs=same_outputs)
        doing.now = "model"
        if spec.recipe.freeze:
            freeze_body(model)
        if spec.recipe.layer_decay != 1.0:
            layers(model)
    # Its metrics, which keep no shapes, are of the CPU.
    task = make_task(model, entry, spec.recipe)
    flops = kept = 0
    with _values_needed(), mode:
        if "train" in batches:
            doing.now = "training step"
            flops, kept = _train(task, _moved(batches["train"], device), spec.recipe)
        task.eval()
        for name in batches.keys() - {"train"}:
            doing.now = "validation" if name == "val" else "test"
            _evaluate(task, _moved(batches[name], device))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    count = sum(p.numel() for p in model.parameters())
    states = _STATES.get(spec.recipe.optimizer, 2) + 1 if "train" in batches else 0
    return TrainingStepCost(flops, 4 * (count + states * trained) + kept, count)


def _train(task: Task, batch: Batch, recipe: Recipe) -> tuple[int, int]:
    """The FLOPs of a step, and the bytes that its backward pass needs."""
    kept: dict[int, Tensor] = {}  # whose identities are nobody else's as long as they are here

    def pack(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            kept[id(tensor)] = tensor
        return tensor

    on_cpu = batch.inputs[0].device.type == "cpu"
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision != "fp32" and on_cpu)
    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), autocast:
            loss = _loss(task, batch)
        loss.backward()
    trained = [p for p in task.model.parameters() if p.requires_grad]
    if recipe.clip_norm is not None:
        nn.utils.clip_grad_norm_(trained, recipe.clip_norm)
    return counter.get_total_flops(), sum(tensor.nbytes for tensor in kept.values())


def _loss(task: Task, batch: Batch) -> Tensor:
    """The loss; where it takes values, as masked tokens, the shapes of output and target agree."""
    try:
        loss = task.batch_loss(batch)
        return loss.sum()
    except (NotImplementedError, *DYNAMIC):
        output = task.model(*batch.inputs)
        return _compared(output, batch.target)


def _evaluate(task: Task, batch: Batch) -> None:
    with torch.no_grad():
        output = task.model(*batch.inputs)
        try:
            task.losses(output, batch.target)
            task.predict(output)
        except (NotImplementedError, *DYNAMIC):
            _compared(output, batch.target)


def _compared(output: Tensor | tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    """A number of all outputs, whose first dimensions must be the target's."""
    words = output if isinstance(output, Tensor) else output[0]
    wanted = target.shape[: words.ndim - 1]
    if words.shape[:-1] != wanted:
        raise RuntimeError(
            f"the model returns {tuple(words.shape)} for targets of {tuple(target.shape)}"
        )
    outputs = (output,) if isinstance(output, Tensor) else output
    return torch.stack([each.float().sum() for each in outputs]).sum()


def _moved(batch: Batch, device: str) -> Batch:
    """The batch's shapes and types on the device."""

    def move(tensor: Tensor) -> Tensor:
        return torch.empty_like(tensor, device="meta" if device == "meta" else "cpu")

    inputs = tuple(move(tensor) for tensor in batch.inputs)
    return batch._replace(inputs=inputs, target=move(batch.target), indices=move(batch.indices))


def _on(device: str) -> AbstractContextManager[Any]:
    if device == "meta":
        return torch.device("meta")
    mode: AbstractContextManager[Any] = FakeTensorMode(allow_non_fake_inputs=True)
    return mode


@contextmanager
def _values_needed() -> Iterator[None]:
    """NeedsValues in the place of what torch says where there are none."""
    try:
        yield
    except (NotImplementedError, *DYNAMIC) as error:
        raise NeedsValues(str(error)) from error
    except Exception as error:
        words = f"{error} {error.__cause__ or ''}".lower()
        if "meta tensor" in words or "meta device" in words or "_local_scalar_dense" in words:
            raise NeedsValues(str(error)) from error
        raise
