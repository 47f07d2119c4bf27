"""Probes: measures of a model itself, taken at the end of each epoch; one module each.

A probe's module has `measure(model, inputs)`, which returns named numbers, or none where the model
has nothing of the kind. One with `arrays` also has `arrays(model, inputs)`, which returns matrices
by their titles; those of the trained model are kept beside its record, for figures. This module
imports no torch, so that pages are checked without it.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Probe(NamedTuple):
    """Where a probe is, and what it measures."""

    module: str
    metrics: tuple[str, ...]
    numbered: tuple[str, ...] = ()  # the beginnings of further ones that end in a number: of layers
    arrays: bool = False


#: The probes by the names that a study page gives them.
PROBES: Mapping[str, Probe] = {
    "receptive-field": Probe(
        "lightning_bench.models.probes.receptive_field",
        ("field_box", "field_formula", "field_effective"),
        arrays=True,
    ),
    "gradient-norm": Probe(
        "lightning_bench.models.probes.gradient_norm",
        ("gradient_decades",),
        numbered=("gradient_",),
    ),
    "toeplitz": Probe(
        "lightning_bench.models.probes.toeplitz", ("toeplitz", "toeplitz_random"), arrays=True
    ),
}
