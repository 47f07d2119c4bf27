"""Metrics of an own LightningModule: which metric of the study each logged name is."""

from collections.abc import Container

DIRECTIONS = ("max", "min")


def column(logged: str, wanted: str) -> str:
    """The metric that a logged name is: the one that the page names, or its own without a split."""
    if wanted not in DIRECTIONS:
        return wanted
    for split in ("val", "valid", "validation", "test"):
        for mark in "/_-.":
            if logged.startswith(f"{split}{mark}"):
                return logged.removeprefix(f"{split}{mark}")
    return logged


def in_test(logged: str, values: Container[str]) -> str | None:
    """The name under which the test logs what validation logs so; None where it doesn't."""
    names = [logged.replace(split, "test", 1) for split in ("validation", "valid", "val")]
    return next((name for name in [*names, logged] if name in values), None)
