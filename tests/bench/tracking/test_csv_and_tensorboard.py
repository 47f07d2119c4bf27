"""The CSV files of the learning curves, event by event."""

import csv
from pathlib import Path

from lightning_bench.bench.store.record import Curve, Epoch
from lightning_bench.bench.tracking.csv_and_tensorboard import Csv
from lightning_bench.bench.tracking.events import Began, Finished, Progressed
from tests.factory import record

EPOCHS = [Epoch(epoch=number, step=number, train_loss=1 / number) for number in range(1, 6)]
BEGAN = Began("k" * 16, "a run", (), {})


def epochs_of(folder: Path) -> list[int]:
    (path,) = folder.rglob("*.csv")
    with path.open(encoding="utf-8") as stream:
        return [int(row["epoch"]) for row in csv.DictReader(stream)]


def test_a_run_that_is_tried_again_keeps_the_epochs_before(tmp_path: Path) -> None:
    """The executor tells of each epoch once, however often a run is tried."""
    tracker = Csv(tmp_path, "study-smoke")
    for event in (BEGAN, *(Progressed(BEGAN.key, epoch) for epoch in EPOCHS[:3])):
        tracker.take(event)
    tracker.take(BEGAN)  # it was lost
    tracker.take(Progressed(BEGAN.key, EPOCHS[3]))
    assert epochs_of(tmp_path) == [1, 2, 3, 4]
    tracker.take(Finished(BEGAN.key, record(curve=Curve.of(EPOCHS))))
    assert epochs_of(tmp_path) == [1, 2, 3, 4, 5]
