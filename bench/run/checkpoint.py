"""Checkpoint files: written atomically, named by their digests, and verified when read.

They lie in `checkpoints/` of an attempt, named `<epoch>-<step>-<digest>.pt`: the name tells
whether the content is whole, so that one renaming puts both in place. Contents are tensors and
plain types, read with `weights_only`.

Of a sharded model each rank writes its own part, `<epoch>-<step>-<digest>.part`. When all have,
rank 0 writes the checkpoint, which names the parts: so there is none with parts of different
moments, wherever the ranks are killed.
"""

import hashlib
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
import torch.distributed as dist

from lightning_bench.bench.run.distributed import ALONE, Rank
from lightning_bench.common.files import rename, temporary_beside

State = dict[str, Any]

_KEPT = 2
_NAME = re.compile(r"(?P<moment>\d{6}-\d{9})-(?P<digest>[0-9a-f]{16})\.(?P<kind>pt|part)")


class Resumed(NamedTuple):
    """An earlier attempt, and the state of its newest checkpoint."""

    attempt: int
    state: State


@dataclass
class Checkpoints:
    """The checkpoints of one attempt, and those of earlier ones that it may go on from.

    `made_with` is what has to be equal for that: sources, packages, device.
    """

    folder: Path
    made_with: Mapping[str, str]
    earlier: Sequence[tuple[int, Path]] = ()  # attempts and their folders, the newest first
    last_cost_s: float = field(default=0.0, init=False)
    afresh: str = field(default="", init=False)  # why none of the earlier ones is gone on from

    def save(self, state: State, part: State | None = None) -> None:
        """Write one beside and rename it; keep the last two.

        Of a sharded model all ranks call it, each with its part, else rank 0 alone. A full disk
        costs the checkpoint, not the run.
        """
        started = time.perf_counter()
        moment = f"{state['epoch']:06}-{state['step']:09}"
        first = True
        if part is not None:
            first = dist.get_rank() == 0
            names = [""] * dist.get_world_size()
            dist.all_gather_object(names, self._try_to_write(part, f"{moment}-", ".part"))
            if not all(names):
                return
            state = {**state, "parts": names}
        if first:
            state = {**state, "made_with": dict(self.made_with)}
            if self._try_to_write(state, f"{moment}-", ".pt"):
                self._delete_old()
        self.last_cost_s = time.perf_counter() - started

    def newest(self, rank: Rank = ALONE) -> Resumed | None:
        """The newest checkpoint of earlier attempts that every rank can read; all ranks must call.

        Why one is passed over is printed to the log of the first.
        """
        candidates = self._candidates() if rank.first else iter(())
        while True:
            candidate = next(candidates, None)
            # Where it is, not what it holds: all ranks share the folder.
            place = [candidate and candidate[:2]]
            if rank.world > 1:
                dist.broadcast_object_list(place)
            if place[0] is None:
                return None
            attempt, path = place[0]
            state, unread = _with_part(candidate[2] if candidate else read(path), path, rank)
            unread_by = [unread]
            if rank.world > 1:
                unread_by = [""] * rank.world
                dist.all_gather_object(unread_by, unread)
            if any(unread_by):
                _say(f"attempt {attempt}: {max(unread_by)} is damaged", rank)
                continue
            _say(f"goes on from {path.name} of attempt {attempt}", rank)
            return Resumed(attempt, state)

    def delete(self) -> None:
        """Delete all of them, of earlier attempts too: the run is over."""
        for folder in (self.folder, *(folder for _, folder in self.earlier)):
            shutil.rmtree(folder, ignore_errors=True)

    def _candidates(self) -> Iterator[tuple[int, Path, State]]:
        """Those of earlier attempts that are whole, the newest first, with attempt and content."""
        for attempt, folder in self.earlier:
            for path in _newest_first(folder):
                state = read(path)
                if state is None:
                    _say(f"attempt {attempt}: {path.name} is damaged")
                    continue
                other = differing(state["made_with"], self.made_with)
                if other:
                    self.afresh = f"attempt {attempt} was made with other {other}"
                    _say(f"{self.afresh}; this one starts afresh")
                    return
                yield attempt, path, state

    def _try_to_write(self, content: State, prefix: str, suffix: str) -> str:
        """The name of the file that was written; empty where that failed."""
        try:
            return _write(content, self.folder, prefix, suffix)
        except OSError as error:
            print(f"no checkpoint could be written: {error}", flush=True)  # noqa: T201 - the log
            return ""

    def _delete_old(self) -> None:
        """Delete all but the last two, and parts that belong to none that is left."""
        whole = _newest_first(self.folder)
        for path in whole[_KEPT:]:
            path.unlink()
        oldest = whole[:_KEPT][-1].name
        # Newer ones may belong to a checkpoint that is being written.
        for path in _newest_first(self.folder, "part"):
            if _moment(path.name) < _moment(oldest):
                path.unlink()


def _write(content: State, folder: Path, prefix: str, suffix: str) -> str:
    """Write a file that is named by its content; the name."""
    folder.mkdir(exist_ok=True)
    with temporary_beside(folder) as (beside, stream):
        hashing = _Hashing(stream)
        torch.save(content, hashing)  # type: ignore[arg-type]
        name = f"{prefix}{hashing.digest.hexdigest()[:16]}{suffix}"
        rename(beside, stream, folder / name)
    return name


def read(path: Path) -> State | None:
    """The content of such a file, on the CPU, or None where it is cut short or altered."""
    name = _NAME.fullmatch(path.name)
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if name is None or digest[:16] != name["digest"]:
            return None
        state: State = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        return None
    return state


def _with_part(state: State | None, path: Path, rank: Rank) -> tuple[State, str]:
    """A checkpoint with a rank's part of it, if it has parts; and the file that can't be read."""
    if state is None:
        return {}, path.name
    if "parts" not in state:
        return state, ""
    name = state["parts"][rank.index]
    part = read(path.with_name(name))
    return (state, name) if part is None else ({**state, **part}, "")


def differing(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """The names of what differs, in words; empty where nothing does."""
    names = sorted(theirs.keys() | ours.keys())
    return ", ".join(name for name in names if theirs.get(name) != ours.get(name))


class _Hashing:
    """A file that is hashed while it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.digest = stream, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self.stream.write(content)

    def flush(self) -> None:
        self.stream.flush()


def _newest_first(folder: Path, kind: str = "pt") -> list[Path]:
    if not folder.is_dir():
        return []
    names = {path.name: _NAME.fullmatch(path.name) for path in folder.iterdir()}
    newest_first = sorted(
        (name for name, m in names.items() if m and m["kind"] == kind), reverse=True
    )
    return [folder / name for name in newest_first]


def _moment(name: str) -> str:
    """Epoch and step, in the order of time."""
    return name.rpartition("-")[0]


def _say(text: str, rank: Rank = ALONE) -> None:
    if rank.first:
        print(f"resume: {text}", flush=True)  # noqa: T201 - to the attempt's log
