"""Control of a training between its steps: step chunks, requests from outside, checkpoints."""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist

from lightning_bench.bench.run.checkpoint import Checkpoints, State
from lightning_bench.bench.run.checkpoint_state import capture, restore
from lightning_bench.bench.run.distributed import Parting, Terminated
from lightning_bench.bench.store.store import Request
from lightning_bench.data.batch import Batch
from lightning_bench.data.loader import Loader
from lightning_bench.models.tasks.task import Task

#: A call of the training loop takes as many steps as fit into this; then the ranks agree anew.
_CHUNK_S = 0.1
#: No more of them, however short: a GPU's steps are not done when the call returns.
_MOST_STEPS = 256
#: A request is looked for no more often than this: a file that is not there costs microseconds.
_LOOK_S = 0.02
#: In a validation several ranks, which have to meet for it, speak of requests no more often.
_APART_S = 0.2
#: Checkpoints may cost this part of the time; the first one comes after so many seconds.
_SHARE, _FIRST_S = 0.02, 1.0


class Stopped(Parting):
    """The run was asked to stop, and has left a checkpoint."""


class Pruned(Parting):
    """The run was asked to end here, with what it has reached."""


class Interrupt:
    """SIGTERM: at once before and after training, during it as soon as all ranks can."""

    def __init__(self) -> None:
        self.asked = self.training = False

    def install(self) -> None:
        """Take the signal, from Lightning too, whose handler talks to the other ranks at once."""
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, *_: object) -> None:
        if not self.training:
            raise Terminated
        self.asked = True


@dataclass
class Control:
    """Requests that may reach a run from outside, and the checkpoints that it leaves.

    Without `checkpoints` nothing is written and nothing resumed. With `checkpoint_s` 0 there is
    one after every step, whatever that costs; else they cost 2 % of the time at most.
    """

    interrupt: Interrupt = field(default_factory=Interrupt)
    request: Callable[[], Request | None] = lambda: None
    checkpoints: Checkpoints | None = None
    checkpoint_s: float = 600.0
    most_steps: int = _MOST_STEPS
    started: float = field(default_factory=time.perf_counter)
    #: Called before Lightning tears a failed training down, which may wait for other ranks.
    on_failure: Callable[[BaseException], None] = lambda error: None


@dataclass
class ControlCallback(pl.Callback):
    """Lightning callback: sets the size of step chunks, takes requests and saves checkpoints.

    `extra` is further state for a checkpoint, `state` one to resume. A validation has so many
    batches on this rank.
    """

    loader: Loader
    control: Control
    extra: Callable[[], State]
    state: State | None = None
    validation_batches: int = 0
    steps: int = field(default=1, init=False)  # of the next call
    _common: int = field(default=0, init=False)  # batches of a validation that every rank has
    _meeting: int = field(default=0, init=False)  # the batch after which ranks agree next
    _asked: Request | None = field(default=None, init=False)
    _looked: float = field(default=0.0, init=False)

    def step_chunks(self, task: Task) -> "StepChunks":
        """What Lightning is to iterate over in place of the loader."""
        return StepChunks(self, task)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restore the checkpoint of an earlier attempt."""
        assert isinstance(pl_module, Task)
        if self.state is not None:
            restore(trainer, pl_module, self.state)
            self.state = None
        self._saved = time.monotonic()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """From here on a SIGTERM waits for the end of a call."""
        self.control.interrupt.install()
        self.control.interrupt.training = True
        if trainer.world_size > 1:
            least = torch.tensor(self.validation_batches, device=pl_module.device)
            dist.all_reduce(least, dist.ReduceOp.MIN)
            self._common = int(least)

    def on_train_batch_start(self, *_: Any) -> None:
        """Start the clock of a call."""
        self._started = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any
    ) -> None:
        """Agree on what to do next, in the middle of an epoch."""
        assert isinstance(pl_module, Task)
        took = time.perf_counter() - self._started
        wanted = int(_CHUNK_S / max(took, 1e-9) * self.steps)
        # Not all at once, since the first steps of all are slower or faster than the rest.
        most = self.control.most_steps if self.control.checkpoint_s else 1
        self.steps = max(1, min(wanted, 4 * self.steps, most))
        self._agree(trainer, pl_module, epoch=trainer.current_epoch, due=self.control.checkpoint_s)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Agree on what to do after an epoch, whose results LearningCurve has read before."""
        assert isinstance(pl_module, Task)
        self._agree(trainer, pl_module, epoch=trainer.current_epoch + 1, due=0.0)

    def on_validation_start(self, *_: Any) -> None:
        """Start the clock of a validation."""
        self._validating, self._meeting = time.perf_counter(), 0

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: object,
        batch: object,
        batch_idx: int,
        *_: Any,
    ) -> None:
        """A validation may be long: leave it with a checkpoint, to be done again."""
        assert isinstance(pl_module, Task)
        if self._leaves(trainer, pl_module, batch_idx):
            self._save(trainer, pl_module, trainer.current_epoch)
            raise Stopped

    def on_test_start(self, *_: Any) -> None:
        """A test is left at once, to be done again."""
        if self.control.interrupt.asked:
            raise Stopped
        self.control.interrupt.training = False
        self.control.interrupt.install()

    def _agree(self, trainer: pl.Trainer, task: Task, *, epoch: int, due: float) -> None:
        asked = self._look() if trainer.is_global_zero else None
        stop, prune = self.control.interrupt.asked or asked == "stop", asked == "prune"
        save = trainer.is_global_zero and self._due(due)
        if trainer.world_size > 1:
            steps = self.steps if trainer.is_global_zero else 0
            agreed = torch.tensor([stop, prune, save, steps], dtype=torch.int32, device=task.device)
            dist.all_reduce(agreed, dist.ReduceOp.MAX)
            stop, prune, save, self.steps = agreed.tolist()
        if prune:
            raise Pruned
        if save or stop:
            self._save(trainer, task, epoch)
        if stop:
            raise Stopped

    def _leaves(self, trainer: pl.Trainer, task: Task, number: int) -> bool:
        """Whether a validation is to be left after a batch.

        Ranks may have unequal numbers of them, so they agree at batches that all have, now and
        then, as the first one says.
        """
        several = trainer.world_size > 1
        if several and (number != self._meeting or number >= self._common):
            return False
        asked = self._look() if trainer.is_global_zero else None
        stop = self.control.interrupt.asked or asked == "stop"
        if several:
            took = (time.perf_counter() - self._validating) / (number + 1)
            apart = max(1, int(_APART_S / took)) if trainer.is_global_zero else 0
            agreed = torch.tensor([stop, apart], dtype=torch.int32, device=task.device)
            dist.all_reduce(agreed, dist.ReduceOp.MAX)
            stop, self._meeting = bool(agreed[0]), number + int(agreed[1])
        return stop

    def _save(self, trainer: pl.Trainer, task: Task, epoch: int) -> None:
        if self.control.checkpoints is not None:
            state, part = capture(trainer, task, epoch)
            if part is not None or trainer.is_global_zero:
                self.control.checkpoints.save({**state, **self.extra()}, part)
            self._saved = time.monotonic()

    def _look(self) -> Request | None:
        """The request, if it is time to look for one."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_S:
            self._looked, self._asked = now, self.control.request()
        return self._asked

    def _due(self, due: float) -> bool:
        """Whether it is time for a checkpoint."""
        if self.control.checkpoints is None:
            return False
        if not self.control.checkpoint_s:
            return True
        least = max(_FIRST_S, self.control.checkpoints.last_cost_s / _SHARE)
        return time.monotonic() - self._saved >= max(due, least)


class StepChunks:
    """The rest of an epoch in chunks of steps, each an iterator of as many batches.

    Without a length, so that Lightning fetches the next chunk before it trains on one: then it
    knows the last. An epoch of which nothing is left is one empty chunk.
    """

    batch_sampler = None

    def __init__(self, control: ControlCallback, task: Task) -> None:
        self.control, self.task = control, task
        self.sampler = control.loader.sampler

    def __iter__(self) -> Iterator[Iterator[Batch]]:
        """Yield the chunks; their batches are made when they are trained on."""
        loader = self.control.loader
        progress = self.task.progress
        # Of the last epoch perhaps a part, where a recipe counts steps.
        left = min(len(loader) - progress.batch, progress.total_steps - progress.step)
        batches = loader.batches(self.task.progress.batch)
        while True:
            size = min(self.control.steps, left)
            left -= size
            yield islice(batches, size)
            if not left:
                return
