"""Checkpoint state: captured and restored so that a resumed training changes no bit."""

import random
from typing import Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
import torch.distributed as dist

from lightning_bench.bench.run import compat
from lightning_bench.bench.run.checkpoint import State
from lightning_bench.bench.run.fsdp import ShardedStrategy
from lightning_bench.models.tasks.task import Task


def capture(trainer: pl.Trainer, task: Task, epoch: int) -> tuple[State, State | None]:
    """The state of training, and this rank's shard of it where the model is sharded.

    All ranks must call it. `epoch` is the one that goes on next, from the task's own `batch`.
    """
    strategy, progress = trainer.strategy, task.progress
    state: State = {
        "epoch": epoch,
        "step": progress.step,
        "batch": progress.batch,
        "precision": trainer.precision_plugin.state_dict(),
    }
    own: State = {"random": random_states(), "loss_sum": progress.loss_sum.cpu()}
    if isinstance(strategy, ShardedStrategy):
        return state, own | strategy.local_state_dict()
    ranks = [own]
    if trainer.world_size > 1:
        ranks = [{} for _ in range(trainer.world_size)]
        dist.all_gather_object(ranks, own)
    state["weights"] = strategy.lightning_module_state_dict()
    state["optimizer"] = strategy.optimizer_state(strategy.optimizers[0])
    return {**state, "ranks": ranks}, None


def restore(trainer: pl.Trainer, task: Task, state: State) -> None:
    """Restore the state of training; to be called when Lightning has set all up."""
    strategy = trainer.strategy
    if isinstance(strategy, ShardedStrategy):
        strategy.load_local_state_dict(state)
        own = state
    else:
        strategy.load_model_state_dict({"state_dict": state["weights"]})
        strategy.load_optimizer_state_dict({"optimizer_states": [state["optimizer"]]})
        own = state["ranks"][trainer.global_rank]
    trainer.precision_plugin.load_state_dict(state["precision"])
    compat.set_current_epoch(trainer, state["epoch"])
    task.progress.step, task.progress.batch = state["step"], state["batch"]
    task.progress.loss_sum = own["loss_sum"].to(task.device)
    set_random_states(own["random"])


def random_states() -> State:
    """The state of every global generator of this process, as tensors and plain types."""
    version, numbers, gauss = random.getstate()
    name, keys, place, has_gauss, cached = cast("Any", np.random.get_state(legacy=True))
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), place, has_gauss, cached],
        "torch": torch.get_rng_state(),
        # Not where a run on a CPU has never touched CUDA.
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
    }


def set_random_states(states: State) -> None:
    """Set every generator to where it was."""
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, place, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), place, has_gauss, cached))
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"])
