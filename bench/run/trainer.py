"""Lightning's Trainer, set up for the ranks, the precision and the device of a run."""

import random
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import MixedPrecision
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities import disable_possible_user_warnings

from lightning_bench.bench.execute.job import Strategy
from lightning_bench.bench.run.distributed import Rank, RankEnvironment
from lightning_bench.bench.run.fsdp import ShardedStrategy
from lightning_bench.bench.spec import Precision, Recipe

_AUTOCAST: dict[Precision, Literal["bf16-mixed", "16-mixed"]]
_AUTOCAST = {"bf16": "bf16-mixed", "fp16": "16-mixed"}


class ForwardMixedPrecision(MixedPrecision):
    """Mixed precision in the forward pass alone: a call takes several steps, backward and all."""

    @contextmanager
    def train_step_context(self) -> Generator[None, None, None]:
        """Nothing: the task enters the context itself."""
        yield


def make_trainer(
    recipe: Recipe,
    epochs: int,
    rank: Rank,
    device: str,
    strategy: Strategy,
    callbacks: Sequence[pl.Callback],
) -> pl.Trainer:
    """The trainer of one rank; it says and saves nothing by itself."""
    plugins: list[Any] = [RankEnvironment(rank)]
    if mode := _AUTOCAST.get(recipe.precision):
        scaler = None
        if recipe.precision == "fp16":
            scaler = torch.amp.GradScaler(device, init_scale=recipe.loss_scale)
        plugins.append(ForwardMixedPrecision(mode, device, scaler))
    return pl.Trainer(
        accelerator="gpu" if device == "cuda" else device,
        devices=[torch.cuda.current_device()] if device == "cuda" else rank.world // rank.nodes,
        num_nodes=rank.nodes,
        strategy=_strategy(rank, strategy, device),
        plugins=plugins,
        max_epochs=epochs,
        # Ops without a deterministic form are worth a warning, and a mark in the record.
        deterministic="warn",
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        # What a sharded model gathers in a validation, it uses again in training.
        inference_mode=strategy != "fsdp",
    )


def _strategy(rank: Rank, strategy: Strategy, device: str) -> str | pl.strategies.Strategy:
    """Lightning's strategy for so many ranks."""
    if rank.world == 1:
        return "auto"
    made: ShardedStrategy | DDPStrategy
    if strategy == "fsdp":
        made = ShardedStrategy(rank.world)
    else:
        # Buffers are equal on all ranks as it is, and sending them would need as many batches of
        # validation on each.
        made = DDPStrategy(forward_sync_buffers=False)
    if device == "cuda":
        # Each rank knows its own GPU alone: whether the others' are visible here is the cluster's.
        own = torch.device("cuda", torch.cuda.current_device())
        made.parallel_devices = [own] * (rank.world // rank.nodes)
    return made


def seed_everything(seed: int) -> None:
    """Seed every generator that a model's initialisation or training may draw from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def silence_warnings() -> None:
    """Silence Lightning's warnings of choices that were made on purpose."""
    disable_possible_user_warnings()
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
