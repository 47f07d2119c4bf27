"""TensorBoard logs and plain CSV files of the learning curves."""

import csv
import io
from pathlib import Path

from lightning_bench.bench.store.record import Epoch
from lightning_bench.bench.tracking.events import (
    Began,
    Event,
    Finished,
    Progressed,
    curve_values,
    final_values,
)
from lightning_bench.common.files import write_atomically


class TensorBoard:
    """One log folder a run, below `<store>/tensorboard/<study>/`."""

    def __init__(self, store: Path, study: str) -> None:
        self.folder = store / "tensorboard" / study
        self.names: dict[str, str] = {}

    def take(self, event: Event) -> None:
        """Show an event."""
        # Imported here, since few ask for it.
        from tensorboard.summary import Writer

        match event:
            case Began():
                self.names[event.key] = f"{_slug(event.name)}-{event.key[:6]}"
            case Finished() if event.key in self.names:
                # Written whole at the end, so that a run sent twice has one curve.
                folder = self.folder / self.names[event.key]
                for old in folder.glob("events.*"):
                    old.unlink()
                writer = Writer(str(folder))
                for epoch in event.record.curve:
                    for name, value in curve_values(epoch).items():
                        writer.add_scalar(name, value, step=epoch.epoch)
                for name, value in final_values(event.record).items():
                    writer.add_scalar(name, value, step=len(event.record.curve))
                writer.close()

    def close(self) -> str:
        """Say where to look."""
        return f"TensorBoard: tensorboard --logdir {self.folder}"


class Csv:
    """One file a run, below `<store>/csv/<study>/`, a line an epoch."""

    def __init__(self, store: Path, study: str) -> None:
        self.folder = store / "csv" / study
        self.names: dict[str, str] = {}
        self.epochs: dict[str, list[Epoch]] = {}

    def take(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Began():
                self.names[event.key] = f"{_slug(event.name)}-{event.key[:6]}.csv"
                # A run that is tried again tells of no epoch a second time.
                self.epochs.setdefault(event.key, [])
            case Progressed() if event.key in self.epochs:
                self.epochs[event.key].append(event.epoch)
                self._write(event.key)
            case Finished() if event.key in self.epochs and event.record.curve:
                self.epochs[event.key] = list(event.record.curve)
                self._write(event.key)

    def close(self) -> str:
        """Say where to look."""
        return f"CSV: {self.folder}"

    def _write(self, key: str) -> None:
        lines = [{"epoch": epoch.epoch, **curve_values(epoch)} for epoch in self.epochs[key]]
        stream = io.StringIO()
        writer = csv.DictWriter(stream, fieldnames=list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / self.names[key], stream.getvalue().encode())


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())
