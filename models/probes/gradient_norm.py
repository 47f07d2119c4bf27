"""The gradient's norm by layer: how much of an error at the output reaches each weight matrix.

Gradients vanish or explode where the norm falls or grows by orders of magnitude from the last layer
to the first (Glorot and Bengio, 2010; He et al., 2015). It is that of the mean cross-entropy
against random classes, always the same ones: of the true classes it would fall everywhere as a
model learns, whatever its depth.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def measure(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, float]:
    """`gradient_1`, `gradient_2` … of the weight matrices in their order, and `gradient_decades`.

    That is log10 of the first by the last: -3 where a thousandth of an error reaches the first.
    Nothing of models that don't give one row of logits for each example.
    """
    norms = gradient_norms(model, inputs)
    if not norms:
        return {}
    measured = {f"gradient_{number}": norm for number, norm in enumerate(norms, start=1)}
    first, last = norms[0], norms[-1]
    if 0 < first < math.inf and 0 < last < math.inf:
        measured["gradient_decades"] = math.log10(first) - math.log10(last)
    return measured


def gradient_norms(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[float]:
    """Of each trained matrix or kernel that the output depends on."""
    matrices = [weight for weight in model.parameters() if weight.requires_grad and weight.ndim > 1]
    was_training = {module for module in model.modules() if module.training}
    try:
        # In evaluation, where batch norms keep what they have seen and nothing is dropped.
        model.eval()
        with torch.enable_grad():
            logits = model(*inputs)
            if not (isinstance(logits, Tensor) and logits.ndim == 2 and matrices):
                return []
            generator = torch.Generator().manual_seed(0)
            classes = torch.randint(logits.shape[1], (len(logits),), generator=generator)
            loss = F.cross_entropy(logits.float(), classes.to(logits.device))
            gradients = torch.autograd.grad(loss, matrices, allow_unused=True)
    finally:
        for module in was_training:
            module.training = True
    return [gradient.norm().item() for gradient in gradients if gradient is not None]
