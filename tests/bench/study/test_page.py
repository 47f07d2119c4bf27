"""Pages: YAML with line numbers, and mistakes in one line."""

import os
from itertools import pairwise
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


#: A thousand million values in ten lines.
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in pairwise("abcdefghi")
)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: [1\nb: 2", 2, "not valid YAML"),
        ("a: 1\nb: 2\na: 3", 3, "'a' is given twice"),
        ("- 1", 1, "is a mapping"),
        ("x: 1\na: !!python/object:os.system ls", 2, "could not determine a constructor"),
        ("a: *b", 1, "undefined alias"),
        ("a: 1\nb: " + "[" * 100_000, 2, "nested deeper than 50 levels"),
        ("a:\n" + "\n".join(" " * i + "- " for i in range(1, 60)), 51, "nested deeper than 50"),
        ("a: &a\n  b: *a", 1, "an alias in the page refers to itself"),
        ('a: 1\nb: "a\\e]0;title\\a"', 2, r"a control character in 'a.x1b\]0;title.x07'"),
        ('"\\u202Ea": 1', 1, "a control character in"),
        (LAUGHS, 1, "more than 10,000 values, with those of each alias"),
        (f"a: {'9' * 6000}", 1, "no number: Exceeds the limit"),
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


@pytest.mark.parametrize("text", ["[" * 50_000, "{a: " * 60])
def test_a_setting_that_is_nested_too_deep_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match="--set:1: nested deeper than 50 levels"):
        pages.scalar(text)


def test_what_is_no_file_or_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_bytes(b"# " + b"x" * 10**6)
    with pytest.raises(UserError, match=r"large\.yaml: larger than a page may be, 1 MB"):
        pages.load(tmp_path / "large.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")  # nobody writes to it
    with pytest.raises(UserError, match=r"pipe\.yaml: not a regular file"):
        pages.load(tmp_path / "pipe.yaml")
    (tmp_path / "link.yaml").symlink_to("large.yaml")  # a link of one's own is followed
    with pytest.raises(UserError, match=r"link\.yaml: larger"):
        pages.load(tmp_path / "link.yaml")
