"""Journal: Optuna's log of operations in a file, under a lock that dies with its holder.

Optuna's own lock is a file that outlives a killed holder and stalls everybody for 30 s; and its
own way of writing waits for the disk at every operation. Here nothing does: after a power cut the
store, which waits, fills a journal again.
"""

import json
import os
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend

from lightning_bench.common.files import locked


class Journal(JournalFileBackend):
    """A journal that Optuna, and `optuna-dashboard`, can open as its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Add operations, after cutting off a line that somebody died in."""
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with locked(Path(f"{self.path}.flock")), self.path.open("rb+") as stream:
            stream.truncate(_whole(stream))
            stream.seek(0, os.SEEK_END)
            stream.write(lines.encode())


def _whole(stream: Any) -> int:
    """The length of the file up to the end of its last whole line."""
    end: int = stream.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        stream.seek(start)
        newline: int = stream.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
