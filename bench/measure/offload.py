"""Offload of a model's state to host memory, while other contenders have the GPU."""

from collections.abc import Iterable

import torch
from torch import Tensor


class Offload:
    """The storages of tensors, copied to host memory and freed on their device.

    The tensors stay what they are, as with FSDP's, so that hooks, views and graphs hold.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        # Tied weights share one.
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}
        self._copies = []
        for storage in storages.values():
            copy = torch.UntypedStorage(storage.nbytes()).copy_(storage)
            storage.resize_(0)
            self._copies.append((storage, copy))

    def restore(self) -> None:
        """Have them on the device again."""
        for storage, copy in self._copies:
            storage.resize_(copy.nbytes())
            storage.copy_(copy)
        self._copies = []
