"""The on-disk cache of arrays that are expensive to make, memory-mapped and shared by processes.

A bundle is a directory `NAME-STAMP-FINGERPRINT`: the stamp says what it was made from and how,
the fingerprint what it holds. It is written beside and renamed, so it is there whole or not.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lightning_bench.common.files import locked
from lightning_bench.common.folders import cache_folder

_BLOCK = 1 << 24


@dataclass(frozen=True)
class Bundle:
    """Named arrays and facts of them, on disk."""

    folder: Path
    facts: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all arrays."""
        return str(self.facts["fingerprint"])

    def array(self, name: str) -> np.ndarray:
        """Map an array; its pages are shared with every process that maps it.

        Copy-on-write rather than read-only, since torch warns of arrays it must not write to.
        """
        array: np.ndarray = np.load(self.folder / f"{name}.npy", mmap_mode="c")
        return array

    def verify(self) -> bool:
        """Whether the arrays still are what was written; reads all of them."""
        return fingerprint((n, self.array(n)) for n in self.facts["arrays"]) == self.fingerprint


class Draft:
    """A bundle in the making: arrays to fill, then facts to state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts: dict[str, Any] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Make a file of zeros to be filled in place, without holding it in memory."""
        path = self.folder / f"{name}.npy"
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        self._arrays[name] = array
        return array

    def array(self, name: str) -> np.ndarray:
        """An array of this draft."""
        return self._arrays[name]

    def save(self, name: str, values: np.ndarray) -> None:
        """Write an array."""
        self.empty(name, values.shape, values.dtype)[...] = values

    def finish(self) -> None:
        """Flush, and write the facts down."""
        for array in self._arrays.values():
            array.flush()  # type: ignore[attr-defined]
        names = sorted(self._arrays)
        self.facts |= {
            "fingerprint": fingerprint((name, self._arrays[name]) for name in names),
            "arrays": names,
        }
        (self.folder / "facts.json").write_text(json.dumps(self.facts), encoding="utf-8")


def bundle(
    name: str,
    made_from: Mapping[str, Any],
    make: Callable[[Draft], None],
    *,
    verified: bool = False,
) -> Bundle:
    """Open the bundle of this name that was made from these things, making it if need be.

    Processes that want the same one at once wait for the first of them to make it. One that is
    incomplete is made anew; where it is to be `verified`, all of it is read, and one that is
    otherwise damaged is made anew too.
    """
    stamp = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:12]
    root = cache_folder() / "data"
    prefix = f"{name.replace('/', '_')}-{stamp}"
    if (kept := _open(root, prefix, verified)) is not None:
        return kept
    root.mkdir(parents=True, exist_ok=True)
    with _lock(root / f"{prefix}.lock") as alone:
        if (kept := _open(root, prefix, verified)) is not None:
            return kept
        if alone:
            # What is damaged, and what a killed process left half made.
            for left in (*root.glob(f"{prefix}-*"), *root.glob(f".{prefix}-*")):
                shutil.rmtree(left, ignore_errors=True)
        _make(root, prefix, make)
        kept = _open(root, prefix, verified=False)
    if kept is None:
        raise OSError(f"{prefix} could not be kept in {root}")
    return kept


def _make(root: Path, prefix: str, make: Callable[[Draft], None]) -> None:
    """Make a bundle in a folder beside, then rename it."""
    beside = Path(tempfile.mkdtemp(prefix=f".{prefix}-", dir=root))
    try:
        draft = Draft(beside)
        make(draft)
        draft.finish()
        target = root / f"{prefix}-{draft.facts['fingerprint'][:12]}"
        with suppress(FileExistsError, OSError):  # somebody was faster, where locks don't work
            beside.chmod(0o755)
            beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def stamp_of(files: Iterable[Path]) -> list[list[Any]]:
    """What tells whether files are still the same, without reading them."""
    states = [(path, path.stat()) for path in files]
    return [[path.name, state.st_size, state.st_mtime_ns] for path, state in states]


def fingerprint(arrays: Iterable[tuple[str, np.ndarray]]) -> str:
    """SHA-256 of names, shapes, types and contents, read block by block."""
    digest = hashlib.sha256()
    for name, array in arrays:
        digest.update(f"{name}:{array.shape}:{array.dtype}".encode())
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, len(flat), _BLOCK):
            digest.update(flat[start : start + _BLOCK].data)
    return digest.hexdigest()


def fingerprint_of_part(whole: str, members: np.ndarray) -> str:
    """The fingerprint of some rows, by that of all of them and the rows' numbers."""
    return fingerprint([(whole, members)])


def _open(root: Path, prefix: str, verified: bool) -> Bundle | None:
    for folder in sorted(root.glob(f"{prefix}-*")):
        # Damaged, or taken away by somebody who makes it anew.
        with suppress(OSError, ValueError, KeyError, TypeError):
            kept = Bundle(folder, json.loads((folder / "facts.json").read_text(encoding="utf-8")))
            arrays = [kept.array(name) for name in kept.facts["arrays"]]
            if arrays and kept.fingerprint and (not verified or kept.verify()):
                return kept
    return None


@contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Hold a lock that dies with its process; False on a network file system that has none."""
    with ExitStack() as stack:
        held = False
        with suppress(OSError):
            stack.enter_context(locked(path))
            held = True
        yield held
