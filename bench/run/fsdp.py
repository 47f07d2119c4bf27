"""FSDP: a task's model sharded over the ranks, for what is too large for one device.

Each rank keeps its part of the weights, of the optimiser's state and of their averages, and saves
and loads that alone: nothing is put together on the way, so it comes back bit for bit.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.strategies import ModelParallelStrategy
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from lightning_bench.data.batch import Batch
from lightning_bench.data.loader import Loader
from lightning_bench.models.tasks.fsdp_tensors import local_part, sharded_like
from lightning_bench.models.tasks.task import Task

#: Modules with more parameters than this are gathered by themselves.
_UNIT = 20_000_000

State = dict[str, Any]


class ShardedStrategy(ModelParallelStrategy):
    """Lightning's strategy that shards the model by itself."""

    def __init__(self, world: int) -> None:
        super().__init__(
            data_parallel_size=world, tensor_parallel_size=1, save_distributed_checkpoint=False
        )

    def setup(self, trainer: pl.Trainer) -> None:
        """Cut up the model before its optimiser is made; a test takes it as training left it."""
        assert self.accelerator is not None
        self.accelerator.setup(trainer)
        self.model_to_device()
        if trainer.state.fn == TrainerFn.FITTING:
            self._cut(self.task)
            self.setup_optimizers(trainer)
        self.setup_precision_plugin()

    @property
    def task(self) -> Task:
        """The task that is trained."""
        assert isinstance(self.lightning_module, Task)
        return self.lightning_module

    @contextmanager
    def block_backward_sync(self) -> Iterator[None]:
        """Keep gradients on this rank for now, whole ones."""
        model = self.task.model
        assert isinstance(model, FSDPModule)
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)

    def local_state_dict(self) -> State:
        """This rank's shard of the weights and of the optimiser's state."""
        optimizer = self.optimizers[0].state_dict()
        optimizer["state"] = {
            number: {name: local_part(value) for name, value in state.items()}
            for number, state in optimizer["state"].items()
        }
        weights = {name: local_part(value) for name, value in self.task.state_dict().items()}
        return {"weights": weights, "optimizer": optimizer}

    def load_local_state_dict(self, state: State) -> None:
        """Load a shard that `local_state_dict` gave."""
        for name, value in self.task.state_dict().items():
            local_part(value).copy_(state["weights"][name])
        optimizer = self.optimizers[0]
        optimizer.load_state_dict(state["optimizer"])
        for parameter, values in optimizer.state.items():
            if isinstance(parameter, DTensor):
                whole = {n: v for n, v in values.items() if _is_part(v, parameter)}
                values.update(
                    {name: sharded_like(value, parameter) for name, value in whole.items()}
                )

    def _cut(self, task: Task) -> None:
        mesh = self.device_mesh["data_parallel"]
        without = [name for name, p in task.model.named_parameters() if not p.ndim]
        if without:
            raise ValueError(f"strategy fsdp can't cut up {without[0]}, a single number; take ddp")
        for module in [*units(task.model), task.model]:
            fully_shard(module, mesh=mesh, reshard_after_forward=True)
        if task.average is not None:
            task.average_weights(task.average.decay)


class PaddedBatches:
    """A rank's batches of an evaluation split, padded to as many as any rank has.

    All ranks call a sharded model together. So one without a share of the last batch repeats the
    one before with a `global_size` of 0, which nothing counts.
    """

    batch_sampler = None

    def __init__(self, loader: Loader) -> None:
        self.loader, self.sampler = loader, loader.sampler
        self.count = math.ceil(loader.sampler.size / loader.batch_size)
        if not len(loader):
            raise ValueError("strategy fsdp needs an example of each split for every rank")

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Batch]:
        """Yield this rank's batches, then the padding."""
        batch = None
        for batch in self.loader:
            yield batch
        if batch is not None and len(self.loader) < self.count:
            yield batch._replace(global_size=0)


def units(model: nn.Module) -> list[nn.Module]:
    """The FSDP units: the smallest modules with more than so many parameters.

    Not what others use, too, while it is not being called: embeddings, and weights that are tied.
    """
    owners: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    found_units: list[nn.Module] = []

    def visit(module: nn.Module) -> int:
        """The parameters of a module that no unit has."""
        left = sum(visit(child) for child in module.children())
        left += sum(p.numel() for p in module.parameters(recurse=False))
        called = not isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Embedding)
        alone = all(owners[id(p)] == 1 for p in module.parameters())
        if left <= _UNIT or module is model or not called or not alone:
            return left
        found_units.append(module)
        return 0

    visit(model)
    return found_units


def _is_part(value: Any, parameter: DTensor) -> bool:
    return (
        isinstance(value, Tensor) and value.ndim > 0 and value.shape == local_part(parameter).shape
    )
