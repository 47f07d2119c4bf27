"""Which of our lines that mention a device are executed, by any process; see DEVICE_LINES."""

import os
import re
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[3]
#: Reports only read what records say of devices.
ROOMS = ("bench", "data", "models", "src/lightning_bench/common")
MENTIONS = re.compile(r"cuda|device|gpu", re.IGNORECASE)
#: Device-hours are a cost, and the meta device is none.
NOT_MEANT = re.compile(r"device_h\b|device-h|subject\.device|\bmeta\b")


def files() -> Iterator[Path]:
    """Our modules."""
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


@cache
def mentions(path: str) -> frozenset[int]:
    """The lines of a file that mention a device, executable ones alone."""
    text = Path(path).read_text(encoding="utf-8")
    mentioned = {
        number
        for number, line in enumerate(text.splitlines(), 1)
        if MENTIONS.search(line) and not NOT_MEANT.search(line)
    }
    return frozenset(mentioned & set(_executable(compile(text, path, "exec"))))


def _executable(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line and line > 0)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _executable(constant)


def start(folder: Path) -> None:
    """Write each such line that this process or a fork of it executes to a file in the folder."""
    # Modules are imported through links, whose names their code objects have.
    ours = {path.relative_to(ROOT).as_posix(): str(path) for path in files()}
    lines_of: dict[CodeType, tuple[str, frozenset[int]] | None] = {}
    seen: set[tuple[str, int]] = set()

    def wanted(code: CodeType) -> tuple[str, frozenset[int]] | None:
        name = code.co_filename
        if "lightning_bench/" not in name:
            return None
        inside = name.rpartition("lightning_bench/")[2]
        inside = inside if inside in ours else f"src/lightning_bench/{inside}"
        if inside not in ours:
            return None
        lines = mentions(ours[inside]) & {line for _, _, line in code.co_lines()}
        return (inside, lines) if lines else None

    def note(inside: str, line: int) -> None:
        if (inside, line) not in seen:
            seen.add((inside, line))
            with (folder / f"lines-{os.getpid()}").open("a", encoding="utf-8") as stream:
                stream.write(f"{inside}:{line}\n")

    def follow(frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            inside, lines = lines_of[frame.f_code] or ("", ())
            if frame.f_lineno in lines:
                note(inside, frame.f_lineno)
        return follow

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        if code not in lines_of:
            lines_of[code] = wanted(code)
        if lines_of[code] is None:
            return None
        inside, lines = lines_of[code] or ("", frozenset())
        if code.co_firstlineno in lines:
            note(inside, code.co_firstlineno)
        return follow

    threading.settrace(enter)
    sys.settrace(enter)
