"""Columns of measured amounts, with the unit and the decimals that their values deserve."""

import math
from collections.abc import Sequence

from lightning_bench.reports.report import Column, Kind


def whole(name: str, title: str) -> Column:
    """Exact numbers."""
    return Column(id=name, title=title, kind="number", decimals=0)


def amount(name: str, title: str, values: Sequence[int], unit: str = "") -> Column:
    """Numbers with the prefix that the largest deserves, as long as the smallest is still seen."""
    largest = max(values, default=0)
    smallest = min((value for value in values if value), default=1)
    prefixes = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
    prefix, size = next(
        (p for p in prefixes if largest >= p[1] and smallest >= p[1] / 100), prefixes[-1]
    )
    decimals = _decimals(smallest / size) if size > 1 else 0
    return Column(
        id=name,
        title=title,
        unit=f"{prefix}{unit}",
        kind="number",
        scale=1 / size,
        decimals=decimals,
    )


def number(
    name: str, title: str, unit: str, values: Sequence[float], kind: Kind = "number"
) -> Column:
    """Numbers in a unit of their own."""
    return Column(
        id=name, title=title, unit=unit, kind=kind,
        decimals=_decimals(min((v for v in values if v > 0), default=1.0)),
    )  # fmt: skip


def percent(name: str, title: str) -> Column:
    """Shares."""
    return Column(id=name, title=title, unit="%", kind="number", scale=100.0, decimals=1)


def milliseconds(name: str, title: str, values: Sequence[float | None]) -> Column:
    """Seconds, shown in milliseconds."""
    known = [1e3 * value for value in values if value]
    return Column(
        id=name, title=title, unit="ms", kind="number", scale=1e3,
        decimals=_decimals(min(known, default=1.0)),
    )  # fmt: skip


def seconds(name: str, title: str, values: Sequence[float | None]) -> Column:
    """Seconds."""
    known = [value for value in values if value]
    return number(name, title, "s", known)


def size(name: str, title: str, values: Sequence[float | None]) -> Column:
    """Bytes, with the prefix that the largest deserves."""
    known = [round(value) for value in values if value]
    return amount(name, title, known, "B")


def _decimals(smallest: float) -> int:
    """Three digits of the smallest value, and no more than four decimals."""
    return min(max(2 - math.floor(math.log10(smallest)), 0), 4) if smallest > 0 else 2
