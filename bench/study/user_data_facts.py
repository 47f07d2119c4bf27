"""Facts of data of the user's own code, told by a process that imports it, and kept.

They are kept until the code, or a file that it opened, is another one.
"""

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning_bench.common.files import write_atomically
from lightning_bench.common.folders import cache_folder
from lightning_bench.data.errors import DataError
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import user_code

#: Looks at the data, by name alone: importing it imports torch.
_DESCRIBING = "lightning_bench.bench.run.user_data_description"
_PACKAGES = Path(__file__).parents[3]


def facts_of(name: str, arguments: str) -> dict[str, Any]:
    """The fields of a DataSet that a callable's data have; a DataError says what is wrong."""
    try:
        sources = user_code.stamp(user_code.source_files(name)[0])
    except ModelError as error:
        raise DataError(str(error)) from None
    stamp = hashlib.sha256(f"{name}\0{arguments}\0{sources}".encode()).hexdigest()
    path = cache_folder() / f"user-data-{stamp[:16]}.json"
    kept = _read(path)
    if not kept:
        kept = _described(name, arguments)
        if "error" in kept:
            raise DataError(kept["error"])
        with suppress(OSError):  # a read-only home costs time, not the result
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(kept))
    facts: dict[str, Any] = kept["facts"]
    return facts


def _read(path: Path) -> dict[str, Any]:
    """What was kept, if every file that was opened then is as it was."""
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for file, size, mtime_ns in kept["files"]:
            state = Path(file).stat()
            if (state.st_size, state.st_mtime_ns) != (size, mtime_ns):
                return {}
    except (OSError, ValueError, KeyError):
        return {}
    return kept


def _described(name: str, arguments: str) -> dict[str, Any]:
    path = os.pathsep.join([*filter(None, sys.path), str(_PACKAGES)])
    # Without -P it would take the working directory's torch.py for torch.
    done = subprocess.run(
        [sys.executable, "-P", "-m", _DESCRIBING, name, arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = done.stdout.strip().splitlines()
    try:
        told: dict[str, Any] = json.loads(lines[-1])  # its code may print, too
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"{name}: its data can't be looked at: {last}") from None
    return told
