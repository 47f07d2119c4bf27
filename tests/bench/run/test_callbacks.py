"""What the callbacks read of a training, and when."""

import pytest
import torch

from lightning_bench.bench.run.callbacks import LearningCurve


def test_the_seconds_of_a_validation_are_those_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training is still queued when a validation is asked for, and the validation when it ends."""
    now, queued_s = [0.0], [3.0]

    def synchronize() -> None:
        now[0] += queued_s[0]
        queued_s[0] = 0.0

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    curve = LearningCurve(lambda epoch: None, val_size=1)
    curve.on_validation_start()
    queued_s[0] = 2.0
    curve.on_validation_end()
    assert curve.validation_s == 2.0
