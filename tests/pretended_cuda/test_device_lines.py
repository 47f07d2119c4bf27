"""Which lines count as mentioning a device."""

import sys

from tests.pretended_cuda.environment import SITE

sys.path.append(str(SITE))
import device_lines

TEXT = '''"""A module about GPUs."""
from x import device
import torch.cuda  # on a device


def f(device: str, gpu: int) -> "Device":
    """Nothing about a GPU."""
    # neither on a device
    y: "Device" = 1
    if y:
        raise ValueError(
            "a long message "
            "about a GPU"
        )
    return g(y, device=y)


@device
class A:
    x: int = 1
    device_h = 2
    z = torch.device("meta")
    gpus = 3
'''


def test_code_counts_and_words_about_it_do_not() -> None:
    lines = TEXT.splitlines()
    assert [lines[number - 1].strip() for number in device_lines.lines_of(TEXT)] == [
        'def f(device: str, gpu: int) -> "Device":',
        '"a long message "',
        "return g(y, device=y)",
        "@device",
        "gpus = 3",
    ]
