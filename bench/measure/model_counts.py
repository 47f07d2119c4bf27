"""Exact counts of a model, on the meta device, where nothing is allocated."""

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch
from torch import Tensor, nn

from lightning_bench.bench.spec import Scalar
from lightning_bench.bench.store.measurements import Counts
from lightning_bench.common.machine import worker_context
from lightning_bench.common.processes import preload, send_output
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import catalogue, counting, flops
from lightning_bench.models.registry.example_inputs import example
from lightning_bench.models.registry.model_variant import Variant
from lightning_bench.models.registry.registry import look_up

#: A backward pass makes two products of the size of each forward one: by the weights' gradient,
#: and by the input's. (FlopCounterMode's own count of it is wrong for depthwise convolutions.)
TRAINING = 3


def count_apart(name: str, arguments: dict[str, Scalar]) -> Counts:
    """Count as `count` does; a model whose module is not ours in a process of its own.

    What that module does when it is imported is so done to no other model.
    """
    if catalogue.find(name).ours:
        return count(name, arguments)
    context = worker_context()
    preload(context, [__name__])
    with ProcessPoolExecutor(1, context, send_output, (os.devnull,)) as process:
        try:
            return process.submit(count, name, arguments).result()
        except BrokenProcessPool:
            raise ModelError(f"{name}: its process ended before it was counted") from None


def count(name: str, arguments: dict[str, Scalar]) -> Counts:
    """Count the model of this name; a ModelError where that can't be done truthfully."""
    variant = look_up(name)
    with torch.device("meta"):
        model = variant.function(**arguments)
        inputs = example(variant, 1, **arguments)
    return count_model(model, inputs, variant, arguments)


def count_model(
    model: nn.Module, inputs: tuple[Tensor, ...], variant: Variant, arguments: dict[str, Scalar]
) -> Counts:
    """Count a model that exists, from one example."""
    if any(len(each) != 1 for each in inputs):
        raise ValueError("counts are of one example")
    products = flops.count(model, inputs)
    parameters = list(model.parameters())
    return Counts(
        parameters=sum(p.numel() for p in parameters),
        parameters_untied=sum(p.numel() for _, p in model.named_parameters(remove_duplicate=False)),
        trainable=sum(p.numel() for p in parameters if p.requires_grad),
        embedding=_embedding(model),
        flops=products.flops,
        flops_train=TRAINING * products.flops,
        activations=products.activations,
        tokens=counting.tokens(model, variant, arguments),
    )


def _embedding(model: nn.Module) -> int:
    """Parameters of embedding tables: token, segment and position vectors where they are such."""
    kinds = (nn.Embedding, nn.EmbeddingBag)
    tables = {module.weight for module in model.modules() if isinstance(module, kinds)}
    return sum(table.numel() for table in tables)
