"""Which of our lines that mention a device are executed, by any process; see DEVICE_LINES.

No tracer follows the processes: with one, Python 3.11 goes through every line of torch and
Lightning at a fraction of its speed, and tests with limits of time fail. A module is compiled with
a mark before each such line instead, `marks[17] = 1`, where marks is a file mapped into the memory
of all processes. So a mark costs nothing, and a killed process has left its own.
"""

import ast
import builtins
import json
import marshal
import mmap
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[3]
#: Reports only read what records say of devices.
ROOMS = ("bench", "data", "models", "src/lightning_bench/common")
MENTIONS = re.compile(r"cuda|device|gpu", re.IGNORECASE)
#: Device-hours are a cost, and the meta device is none.
NOT_MEANT = re.compile(r"device_h\b|device-h|subject\.device|torch\.device\(\"meta\"\)|meta device")
#: In the folder of DEVICE_LINES: the lines that mention a device, and a byte for each.
MENTIONED, MARKS = "mentioned.json", "marks"
#: The name, in every module, of the bytes.
NAME = "_device_line_marks"


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


def prepare(folder: Path) -> None:
    """A folder for DEVICE_LINES; marks of the very same lines stay, of others they go."""
    lines = json.dumps([f"{file}:{line}" for file, found in mentioned().items() for line in found])
    known = folder / MENTIONED
    if not known.exists() or known.read_text("utf-8") != lines:
        for each in folder.iterdir():
            each.unlink()
        known.write_text(lines, "utf-8")
        (folder / MARKS).write_bytes(bytes(len(json.loads(lines))))


def executed(folder: Path) -> dict[str, bool]:
    """Each line, as `file:number`, and whether some process has executed it."""
    marks = (folder / MARKS).read_bytes()
    lines = json.loads((folder / MENTIONED).read_text("utf-8"))
    return {line: bool(mark) for line, mark in zip(lines, marks, strict=True)}


def marked(text: str, numbers: dict[int, int]) -> ast.Module:
    """The syntax tree of a module with a mark, of the number given, at each of these lines."""
    tree = ast.parse(text)
    left = dict(numbers)
    _mark_expressions(tree, left, {each.lineno for each in _statements(tree)})
    _mark_statements(tree, left)
    assert not left, f"no place for a mark at the lines {list(left)}"
    return ast.fix_missing_locations(tree)


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    return (each for each in ast.walk(tree) if isinstance(each, ast.stmt))


def _mark_statements(node: ast.AST, left: dict[int, int]) -> None:
    """`marks[17] = 1` before each statement that begins at such a line."""
    for _, block in ast.iter_fields(node):
        if not isinstance(block, list):
            continue
        for each in list(block):
            if isinstance(each, ast.stmt) and each.lineno in left:
                mark = ast.parse(f"{NAME}[{left.pop(each.lineno)}] = 1").body[0]
                block.insert(block.index(each), ast.copy_location(mark, each))
    for child in ast.iter_child_nodes(node):
        _mark_statements(child, left)


def _mark_expressions(node: ast.AST, left: dict[int, int], begun: set[int]) -> None:
    """`marks.__setitem__(17, 1) or x` for x, the first expression of a line within a statement."""

    def replaced(child: object) -> object:
        if isinstance(child, ast.expr) and child.lineno in left and child.lineno not in begun:
            evaluated = not isinstance(child, ast.Starred | ast.Slice | ast.FormattedValue)
            if evaluated and isinstance(getattr(child, "ctx", ast.Load()), ast.Load):
                number = left.pop(child.lineno)
                mark = ast.parse(f"{NAME}.__setitem__({number}, 1)", mode="eval").body
                both = ast.BoolOp(ast.Or(), [mark, child])
                return ast.copy_location(both, child)
        return child

    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.JoinedStr) or name == "format_spec":
            continue  # their parts are no expressions of their own
        if isinstance(value, list):
            value[:] = [replaced(each) for each in value]
        else:
            setattr(node, name, replaced(value))
    for child in ast.iter_child_nodes(node):
        _mark_expressions(child, left, begun)


class MarkingLoader(SourceFileLoader):
    """Loads a module with its marks; what it compiled lies in the folder of DEVICE_LINES."""

    def __init__(self, name: str, path: str, folder: Path, numbers: dict[int, int]) -> None:
        super().__init__(name, path)
        self.folder, self.numbers = folder, numbers

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, compiled once for all processes."""
        source = Path(self.path)
        kept = self.folder / f"{fullname}.{source.stat().st_mtime_ns}"
        try:
            return marshal.loads(kept.read_bytes())
        except FileNotFoundError:
            pass
        text = source.read_text("utf-8")
        # A test may have changed a copy of its own.
        same = lines_of(text) == sorted(self.numbers)
        tree = marked(text, self.numbers) if same else ast.parse(text)
        code = compile(tree, self.path, "exec")
        beside = kept.with_name(f"{kept.name}.{os.getpid()}")
        beside.write_bytes(marshal.dumps(code))
        beside.replace(kept)
        return code


class MarkingFinder:
    """Finds our modules that mention a device."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers: dict[str, dict[int, int]] = {}
        for number, line in enumerate(json.loads((folder / MENTIONED).read_text("utf-8"))):
            file, _, at = line.rpartition(":")
            self.numbers.setdefault(file, {})[int(at)] = number

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that Python finds, with our loader."""
        if not name.startswith("lightning_bench."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None:
            return spec
        # Modules are imported through links, whose names their files have.
        inside = spec.origin.rpartition("lightning_bench/")[2]
        for file in (inside, f"src/lightning_bench/{inside}"):
            if file in self.numbers:
                spec.loader = MarkingLoader(name, spec.origin, self.folder, self.numbers[file])
        return spec


def start(folder: Path) -> None:
    """Mark each such line that this process or a fork of it executes."""
    with (folder / MARKS).open("r+b") as stream:
        setattr(builtins, NAME, mmap.mmap(stream.fileno(), 0))
    sys.meta_path.insert(0, MarkingFinder(folder))
