"""Sharded: FSDP around a task's model, for models that are too large for one device."""

from functools import partial
from typing import Any

from pytorch_lightning.strategies import FSDPStrategy
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

#: Modules with more parameters than this are gathered by themselves.
_UNIT = 20_000_000


class Sharded(FSDPStrategy):
    """Lightning's FSDP, but of the model inside the task, so that a call may take several steps.

    Around the whole task, as Lightning would have it, the backward pass of a step would run inside
    the wrapper's forward. A sharded run leaves no checkpoints so far: what is put back together
    from the shards is not yet, bit for bit, what was taken apart.
    """

    def __init__(self, **options: Any) -> None:
        policy = partial(size_based_auto_wrap_policy, min_num_params=_UNIT)
        super().__init__(auto_wrap_policy=policy, state_dict_type="full", **options)

    def _setup_model(self, model: nn.Module) -> nn.Module:
        assert isinstance(model.model, nn.Module)
        if not isinstance(model.model, FullyShardedDataParallel):
            model.model = FullyShardedDataParallel(
                model.model,
                sharding_strategy=self.sharding_strategy,
                mixed_precision=self.mixed_precision_config,
                device_id=self.root_device,
                **self.kwargs,
            )
        return model.to(self.root_device)
