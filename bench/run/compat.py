"""Interfaces of Lightning and torch that are not documented, used here alone.

`tests/bench/run/test_compat.py` fails where one of them changes.
"""

from typing import Any

import pytorch_lightning as pl


def set_current_epoch(trainer: pl.Trainer, epoch: int) -> None:
    """Have `fit` begin with an epoch that is not the first; to be called in `on_fit_start`."""
    progress: Any = trainer.fit_loop.epoch_progress.current
    progress.ready = progress.started = progress.processed = progress.completed = epoch


def begin_epoch_afresh(trainer: Any) -> None:
    """Have a restored `fit` train a whole epoch; to be called in `on_train_start`.

    Of a checkpoint of an epoch's beginning Lightning would go on behind the last batch of the one
    before, and so train on none.
    """
    trainer.fit_loop.restarting = False
    trainer.fit_loop.epoch_loop.reset_restart_stage()


def set_compile_threads(threads: int) -> None:
    """Limit the threads that compile; torch's environment variable is read at import alone."""
    from torch._inductor import config  # takes a while

    config.compile_threads = threads
