"""Which of our lines that mention a device are executed, by any process; see DEVICE_LINES."""

import ast
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[3]
#: Reports only read what records say of devices.
ROOMS = ("bench", "data", "models", "src/lightning_bench/common")
MENTIONS = re.compile(r"cuda|device|gpu", re.IGNORECASE)
#: Device-hours are a cost, and the meta device is none.
NOT_MEANT = re.compile(r"device_h\b|device-h|subject\.device|torch\.device\(\"meta\"\)|meta device")
#: In the folder of DEVICE_LINES: each of our files with the lines of it that mention a device.
MENTIONED = "mentioned.json"


def files() -> Iterator[Path]:
    """Our modules."""
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def mentioned() -> dict[str, list[int]]:
    """Each of our files, with its lines whose code mentions a device."""
    return {
        path.relative_to(ROOT).as_posix(): lines_of(path.read_text("utf-8")) for path in files()
    }


def lines_of(text: str) -> list[int]:
    """The lines of a module whose code mentions a device, as the tracer of Python tells lines.

    Code is neither a comment, nor a docstring, nor an annotation, nor an import. A line without
    instructions of its own, as the second one of a message is, stands for the line of its statement
    before it.
    """
    tree = ast.parse(text)
    executable = set(_executable(compile(text, "module", "exec")))
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    found = set()
    for number, line in enumerate(_code(text, tree), 1):
        if not MENTIONS.search(NOT_MEANT.sub("", line)):
            continue
        around = [each for each in statements if _first(each) <= number <= (each.end_lineno or 0)]
        first = max(map(_first, around), default=number)
        found |= set(sorted(executable & set(range(first, number + 1)))[-1:])
    return sorted(found)


def _first(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _code(text: str, tree: ast.Module) -> list[str]:
    """The lines without comments, docstrings, annotations and imports."""
    lines = [line.encode() for line in text.splitlines()]  # as ast counts columns

    def blank(first: int, start: int, last: int, end: int) -> None:
        for number in range(first, last + 1):
            line = lines[number - 1]
            since, until = start if number == first else 0, end if number == last else len(line)
            lines[number - 1] = line[:since] + b" " * (until - since) + line[until:]

    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.append(node.value)
        if isinstance(node, ast.Import | ast.ImportFrom):
            parts.append(node)
        for part in parts:
            if isinstance(part, ast.expr | ast.stmt):
                blank(part.lineno, part.col_offset, part.end_lineno or 0, part.end_col_offset or 0)
    for line, column in _comments(text):
        lines[line - 1] = lines[line - 1].decode()[:column].encode()
    return [line.decode() for line in lines]


def _comments(text: str) -> Iterator[tuple[int, int]]:
    import io
    import tokenize

    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start


def _executable(code: CodeType) -> Iterator[int]:
    yield from (line for _, _, line in code.co_lines() if line and line > 0)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _executable(constant)


def start(folder: Path) -> None:
    """Write each such line that this process or a fork of it executes to a file in the folder."""
    # Modules are imported through links, whose names their code objects have.
    ours = {
        inside: frozenset(lines)
        for inside, lines in json.loads((folder / MENTIONED).read_text("utf-8")).items()
    }
    #: The lines that are yet to be seen of each code object; none: it need not be followed.
    missing: dict[CodeType, tuple[str, set[int]] | None] = {}

    def wanted(code: CodeType) -> tuple[str, set[int]] | None:
        name = code.co_filename
        if "lightning_bench/" not in name:
            return None
        inside = name.rpartition("lightning_bench/")[2]
        inside = inside if inside in ours else f"src/lightning_bench/{inside}"
        lines = ours.get(inside, frozenset()) & {line for _, _, line in code.co_lines()}
        return (inside, set(lines)) if lines else None

    def note(code: CodeType, line: int) -> None:
        inside, lines = missing[code] or ("", set())
        if line not in lines:
            return
        lines.discard(line)
        if not lines:
            missing[code] = None
        with (folder / f"lines-{os.getpid()}").open("a", encoding="utf-8") as stream:
            stream.write(f"{inside}:{line}\n")

    def follow(frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            note(frame.f_code, frame.f_lineno)
        return follow if missing[frame.f_code] else None

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        code = frame.f_code
        if code not in missing:
            missing[code] = wanted(code)
        if missing[code] is None:
            return None
        note(code, code.co_firstlineno)
        return follow

    threading.settrace(enter)
    sys.settrace(enter)
