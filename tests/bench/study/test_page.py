"""Pages: YAML with line numbers, and mistakes in one line."""

from pathlib import Path

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study import page as pages


def read(tmp_path: Path, text: str) -> pages.Page:
    path = tmp_path / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return pages.load(path)


def test_values_are_what_they_look_like(tmp_path: Path) -> None:
    text = "a: 1e-3\nb: no\nc: [1, .5, -3E4, 1.5.2]\nd: {e: true, f: ~, g: 2026-01-01}\n"
    assert read(tmp_path, text).data == {
        "a": 0.001,
        "b": "no",
        "c": [1, 0.5, -30000.0, "1.5.2"],
        "d": {"e": True, "f": None, "g": "2026-01-01"},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("-07", -7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("1_0.5", "1_0.5"),
        ("+12", 12),
        ("5.", 5.0),
        (".inf", float("inf")),
        ("True", True),
        ("yes", "yes"),
        ("NULL", None),
        ("'010'", "010"),
    ],
)
def test_scalars_are_those_of_the_core_schema(tmp_path: Path, text: str, value: object) -> None:
    for found in (read(tmp_path, f"a: [{text}]\n").data["a"][0], pages.scalar(text)):
        assert found == value
        assert type(found) is type(value)


def test_every_value_knows_its_line(tmp_path: Path) -> None:
    page = read(tmp_path, "a: 1\nb:\n  c: 2\n  d:\n    - 3\n    - 4\n")
    assert page.where(("b", "d", 1)).endswith("p.yaml:6")
    assert page.where(("b", "x", "y")).endswith("p.yaml:2")
    assert page.where(("b", "c"), ("a",)).endswith("p.yaml:3")


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: [1\nb: 2", 2, "not valid YAML"),
        ("a: 1\nb: 2\na: 3", 3, "'a' is given twice"),
        ("- 1", 1, "is a mapping"),
        ("x: 1\na: !!python/object:os.system ls", 2, "could not determine a constructor"),
        ("a: *b", 1, "undefined alias"),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(UserError, match=rf"p\.yaml:{line}: .*{says}"):
        read(tmp_path, text)


@pytest.mark.parametrize("content", [b"a: &a [*a]", b"\x00", b"a: \xff\xfe"])
def test_unreadable_pages_are_mistakes_too(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.yaml").write_bytes(content)
    with pytest.raises(UserError, match=r"p\.yaml"):
        pages.load(tmp_path / "p.yaml")
    with pytest.raises(UserError, match="No such file"):
        pages.load(tmp_path / "q.yaml")


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), ("[1, 2]", [1, 2]), ("null", None), ("a: b: c", "a: b: c")]
)
def test_scalars_of_the_command_line(text: str, value: object) -> None:
    assert pages.scalar(text) == value
