"""What parsing the package's files told, kept in the cache folder from one command to the next.

To parse some sixty files takes longer than all else that a plan of a small study does. What was
kept counts as long as no file of the package was written, came or went.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from lightning_bench.common.files import read_regular, write_atomically

Parts = tuple[str, ...]


class Parsed(NamedTuple):
    """Of a file: the digest of its syntax tree, and what it imports, relatively or not."""

    digest: str
    imports: Sequence[tuple[bool, Parts]]


class ParsedFiles:
    """The parsed files of a package."""

    def __init__(self, package: Path, cache_folder: Path) -> None:
        """Take what is kept of the package as it is."""
        self._package = package
        self._path = cache_folder / "parsed-files.json"
        self._stamp = _stamp(package)
        self._files = self._read()
        self._parsed_more = False

    def of(self, file: Path, parse: Callable[[], Parsed]) -> Parsed:
        """What is known of a file of the package; it is parsed where nothing is."""
        name = str(file.relative_to(self._package))
        if name not in self._files:
            self._files[name] = parse()
            self._parsed_more = True
        return self._files[name]

    def keep(self) -> None:
        """Write what was parsed since it was read; nobody needs it, so no failure is told."""
        if self._parsed_more:
            self._parsed_more = False
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                content = json.dumps({"stamp": self._stamp, "files": self._files})
                write_atomically(self._path, content, durable=False)

    def _read(self) -> dict[str, Parsed]:
        try:
            content = json.loads(read_regular(self._path))
            if content["stamp"] != self._stamp:
                return {}
            return {
                str(name): Parsed(str(digest), [(bool(r), tuple(parts)) for r, parts in imports])
                for name, (digest, imports) in content["files"].items()
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {}


def _stamp(package: Path) -> str:
    """A digest of the names, sizes and times of a package's files, and of this Python."""
    states = [(sys.version, str(package))]
    for folder, folders, files in os.walk(package, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(folder, name)  # noqa: PTH118 - of hundreds, quicker
                state = os.stat(path)  # noqa: PTH116
                times = f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns} {state.st_ino}"
                states.append((path, times))
    return hashlib.sha256(repr(states).encode()).hexdigest()
