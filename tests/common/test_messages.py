"""The words of error messages."""

import pytest

from lightning_bench.common.messages import first_line, nearest


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [
        ("MLP-Mixr", ["mlp-mixer", "vit"], "; did you mean 'mlp-mixer'?"),
        ("ten", ["digits", "cifar10"], "; valid: cifar10, digits"),
        ("ten", [str(i) * 9 for i in range(20)], ""),
        ("ten", [], ""),
    ],
)
def test_the_nearest_name_or_the_few_valid_ones(name: str, names: list[str], hint: str) -> None:
    assert nearest(name, names) == hint


def test_an_exception_without_a_message_is_told_by_its_class() -> None:
    assert first_line(ValueError("no such row\nin the file")) == "no such row"
    assert first_line(KeyboardInterrupt()) == "KeyboardInterrupt"
