"""What probes keep of a trained model for figures: beside its record, whole or refused."""

import hashlib

import numpy as np
import pytest

from lightning_bench.bench.run.result import save_arrays
from lightning_bench.bench.run.training import train
from lightning_bench.bench.store import predictions
from lightning_bench.bench.store.store import ARRAYS, Damaged
from lightning_bench.models.probes import PROBES
from tests.factory import spec


def test_a_run_keeps_the_gradient_at_each_pixel(tmp_path) -> None:
    of = spec("convnet", "digits", {"depth": 2}, {"epochs": 1, "batch_size": 256})
    of = of.model_copy(update={"probes": ("receptive-field", "toeplitz")})
    outcome = train(of, device="cpu", on_epoch=lambda _: None)
    assert set(outcome.arrays) == {"receptive-field/field"}  # it has no spatial matrix
    field = outcome.arrays["receptive-field/field"]
    assert (field.shape, field.dtype, field.max()) == ((8, 8), np.float16, 1)
    # Two layers of 3×3 see a square of 5 pixels around the middle, and nothing else.
    assert (field > 0).sum() <= 25
    assert outcome.metrics["field_box"] <= 5

    digest = save_arrays(tmp_path / ARRAYS, outcome.arrays)
    assert digest == hashlib.sha256((tmp_path / ARRAYS).read_bytes()).hexdigest()
    kept = predictions.read_arrays(tmp_path, digest)
    np.testing.assert_array_equal(kept["receptive-field/field"], field)
    (tmp_path / ARRAYS).write_bytes(b"other")
    with pytest.raises(Damaged):
        predictions.read_arrays(tmp_path, digest)


@pytest.mark.slow
def test_a_text_model_keeps_the_matrices_of_its_first_middle_and_last_layer() -> None:
    args = {"width": 16, "depth": 5, "hidden": 32}
    of = spec("gmlp-text", "polarity", args, {"epochs": 1, "batch_size": 256})
    of = of.model_copy(update={"probes": ("toeplitz",)})
    kept = train(of, device="cpu", on_epoch=lambda _: None).arrays
    assert set(kept) == {f"toeplitz/layer {number}" for number in (1, 3, 5)}
    assert all(np.abs(matrix).max() == 1 for matrix in kept.values())


def test_only_probes_that_say_so_keep_arrays() -> None:
    assert {name for name, probe in PROBES.items() if probe.arrays} >= {
        "receptive-field",
        "toeplitz",
    }
