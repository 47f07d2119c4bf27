"""Probes: measures of a model itself, taken at the end of each epoch; one module each.

A probe's module has `measure(model, example)`, which returns named numbers, or none where the
model has nothing of the kind. This one imports no torch, so that pages are checked without it.
"""

from collections.abc import Mapping

#: The module of each probe, by the name that a study page gives it.
PROBES: Mapping[str, str] = {
    "receptive-field": "models.probes.receptive_field",
    "toeplitz": "models.probes.toeplitz",
}
