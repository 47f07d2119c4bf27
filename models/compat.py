"""Interfaces of torch and timm that are not documented, used here alone.

`tests/models/test_compat.py` fails where one of them changes.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

# Hears of every operation, with its inputs and outputs. FlopCounterMode, which is documented, is
# silent on operations without a formula, and on the sizes of what comes out.
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["TorchDispatchMode", "checkpoint_filter"]

Filter = Callable[[dict[str, Tensor], nn.Module], Mapping[str, Any]]


def checkpoint_filter(model: nn.Module) -> Filter | None:
    """What timm does to a checkpoint before loading it: renames, and resizes positions.

    A function of each of its architectures' modules; None for one without, and for other models.
    """
    module = type(model).__module__
    if not module.startswith("timm."):
        return None
    return getattr(sys.modules[module], "checkpoint_filter_fn", None)
