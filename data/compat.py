"""Private functions of other libraries that data needs; a test notices when they change."""

import torch
from torch import Tensor


def standard_gamma(alpha: Tensor, generator: torch.Generator) -> Tensor:
    """Gamma(alpha, 1), drawn with a generator, which torch.distributions doesn't take."""
    return torch._standard_gamma(alpha, generator=generator)
