"""Triton's driver, asked by torch's compiler which card it would make kernels for."""

from types import ModuleType
from typing import Any

import pretended_host as host


class Driver:
    """The active driver; there is no card to load a kernel on, and tensors are the host's."""

    def get_current_target(self) -> Any:
        """The architecture of the cards."""
        from triton.backends.compiler import GPUTarget

        major, minor = host.OPTIONS["capability"]
        return GPUTarget("cuda", 10 * major + minor, 32)

    def get_active_torch_device(self) -> Any:
        """The first card."""
        import torch

        return torch.device("cuda", 0)


def patch(module: ModuleType) -> None:
    """Make it the active one."""
    module.driver.set_active(Driver())
