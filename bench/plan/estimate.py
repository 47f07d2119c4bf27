"""Estimates of what runs take on a machine, from counts of their models, before any has run.

Training is three forward passes a step (a backward pass makes two products of the size of each
forward one), validation and test one. A GPU takes as long as its products, the numbers that it
moves or the work of Python, whichever is most; a CPU does one after the other. Python launches
kernels, and for each step, each epoch and each run does what has nothing to do with the model:
loops, optimiser, metrics, files. Not counted: decoding images, augmentation, waiting for a network.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan.machines import DeviceRates
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.data.dataset import MASKED, DataSet
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import catalogue
from lightning_bench.models.tasks.optimizer_names import OPTIMIZERS

#: Passes of the size of a forward one in a training step.
_TRAINING = 3
#: Each number that an operation puts out is written once, and read by the next one.
_READ_AND_WRITTEN = 2
#: What a batch of validation or test takes of Python, of what a training step does: there is
#: neither an optimiser nor a backward pass.
_EVALUATED = 0.5
#: Tensors of the size of the weights, apart from weights and gradients.
#: What a process takes with torch and Lightning imported, before it has a model.
_PROCESS_BYTES = 700 * 2**20


@dataclass(frozen=True)
class Workload:
    """The work of one run: what its model computes and moves over all epochs, and its memory."""

    flops: float
    convolved: float  # of them, those of convolutions
    numbers: float  # that operations put out
    kernels: float
    weights_bytes: float  # weights, gradients, optimiser state, averages
    activation_bytes: float  # of a batch, on all devices together
    steps: float = 0  # of training; a batch that is scored counts as a part of one
    epochs: int = 0


@dataclass(frozen=True)
class Estimate:
    """What a run takes on a machine; `devices_needed` of them where one can't hold it."""

    seconds: float
    flops: float
    memory_bytes: float  # of a device
    devices_needed: int = 1


@dataclass(frozen=True)
class Unknown:
    """Why there is no estimate of a run."""

    reason: str


def estimates(
    specs: Sequence[RunSpec], machine: Callable[[], DeviceRates], devices: int = 1
) -> list[Estimate | Unknown]:
    """Estimate runs of so many devices each; models are counted in a process that has torch."""
    if not specs:
        return []
    wanted = [(spec.model.name, arguments(spec)) for spec in specs]
    distinct = {repr(each): each for each in wanted}
    try:
        counted = dict(zip(distinct, catalogue.counts(list(distinct.values())), strict=True))
    except ModelError as error:
        return [Unknown(str(error))] * len(specs)
    there = machine()
    found: list[Estimate | Unknown] = []
    for spec, each in zip(specs, wanted, strict=True):
        work = workload(spec, dataset_of(spec.data), counted[repr(each)])
        found.append(work if isinstance(work, Unknown) else estimate(spec, work, there, devices))
    return found


def arguments(spec: RunSpec) -> dict[str, Any]:
    """All arguments of a run's model, with those that its data decide."""
    return {**dataset_of(spec.data).facts(), **spec.model.args}


def workload(spec: RunSpec, dataset: DataSet, counts: Mapping[str, Any]) -> Workload | Unknown:
    """The work of a run whose model counts so much for one example."""
    if "error" in counts:
        return Unknown(str(counts["error"]))
    sizes = examples(dataset)
    if isinstance(sizes, Unknown):
        return sizes
    recipe = spec.recipe
    padded = mean_length(dataset)
    epochs, steps = recipe.length(max(1, sizes["train"] // recipe.batch_size))
    trained = steps * min(recipe.batch_size, sizes["train"]) * (1 if recipe.freeze else _TRAINING)
    scored = epochs * sizes["val"] + (sizes["test"] if spec.tested else 0)
    batches = steps * _TRAINING + scored / recipe.batch_size
    passes = (trained + scored) * padded
    micro = recipe.batch_size / recipe.accumulate if epochs and not recipe.freeze else 0
    copies = 1 + bool(epochs) * (1 + OPTIMIZERS.get(recipe.optimizer, 2)) + bool(recipe.ema)
    parameters = counts["parameters"]
    return Workload(
        flops=passes * counts["flops"],
        convolved=passes * counts["convolved"],
        numbers=passes * counts["outputs"],
        kernels=batches * counts["operations"],
        weights_bytes=4.0 * parameters * copies,
        activation_bytes=_width(spec) * micro * padded * counts["outputs"],
        steps=steps + _EVALUATED * scored / recipe.batch_size,
        epochs=epochs,
    )


def estimate(spec: RunSpec, work: Workload, machine: DeviceRates, devices: int = 1) -> Estimate:
    """What a run takes on so many devices; UserError where they don't have its precision."""
    precision = spec.recipe.precision
    if precision not in machine.flops:
        raise UserError(f"{machine.name} does not compute in {precision}; see recipe.precision")
    products = (work.flops - work.convolved) / machine.flops[precision]
    convolutions = work.convolved / machine.convolution_flops[precision]
    moved = _READ_AND_WRITTEN * _width(spec) * work.numbers / machine.bytes_per_s
    computing = (products + convolutions) / machine.utilisation
    python = work.kernels * machine.launch_s + work.steps * machine.step_s
    parts = (computing / devices, moved / devices, python)
    together = max(parts) if machine.overlaps else sum(parts)
    memory = work.weights_bytes + work.activation_bytes / devices
    needed = devices
    if machine.memory_bytes and memory > machine.memory_bytes:
        # As FSDP has it: weights and what belongs to them are cut up, like the batch.
        needed = math.ceil((work.weights_bytes + work.activation_bytes) / machine.memory_bytes)
    process = 0 if machine.memory_bytes else _PROCESS_BYTES
    fixed = machine.start_s + work.epochs * machine.epoch_s
    return Estimate(fixed + together, work.flops, memory + process, max(needed, devices))


def examples(dataset: DataSet) -> dict[str, int] | Unknown:
    """The examples of training, validation and all tests together."""
    if dataset.task in MASKED or dataset.name.endswith("-nsp"):
        if not dataset.train_tokens:
            return Unknown(f"how long {dataset.name} is shows when it is read")
        # Texts end to end, cut to the length of the model less its two special tokens.
        a_token = 1 / (dataset.length - 2)
        rows = dataset.splits.get("train", 0)
        shares = {name: size / rows for name, size in dataset.splits.items()} if rows else {}
        sizes = {name: share * dataset.train_tokens * a_token for name, share in shares.items()}
        if not sizes:
            sizes = dict.fromkeys(("val", "test"), dataset.train_tokens * a_token / 10)
            sizes["train"] = dataset.train_tokens * a_token
    else:
        if not dataset.splits:
            return Unknown(f"how large {dataset.name} is shows when it is read")
        sizes = dict(dataset.splits)
    if dataset.shots:
        sizes["train"] = dataset.shots * dataset.classes
    train, val = int(sizes.get("train", 0)), int(sizes.get("val", 0))
    tests = sum(size for name, size in sizes.items() if name not in {"train", "val"})
    return {"train": train, "val": val, "test": int(tests * (1 + dataset.shifts))}


def mean_length(dataset: DataSet) -> float:
    """The mean length of texts as batches have them, as a share of the longest; of others 1."""
    rows = dataset.splits.get("train", 0)
    if dataset.kind != "text" or dataset.task in MASKED or not (rows and dataset.train_tokens):
        return 1.0
    return min(1.0, dataset.train_tokens / rows / dataset.length)


def _width(spec: RunSpec) -> int:
    """The bytes of a number between operations."""
    return 2 if spec.recipe.precision in {"bf16", "fp16"} else 4
