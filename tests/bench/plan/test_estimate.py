"""Estimates of runs from counts of their models, against sums done by hand."""

from dataclasses import replace

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan import estimate as estimates
from lightning_bench.bench.plan import machines
from lightning_bench.bench.plan.estimate import Unknown, Workload
from lightning_bench.bench.plan.machines import DeviceRates
from lightning_bench.data.catalogue import find
from lightning_bench.models.registry import catalogue
from tests.factory import spec

COUNTS = {"parameters": 100, "flops": 1000, "convolved": 400, "outputs": 50, "operations": 7}
SLOW = DeviceRates(
    name="slow",
    devices=4,
    flops={"fp32": 1e6},
    convolution_flops={"fp32": 2e6},
    bytes_per_s=1e9,
    launch_s=1e-3,
    step_s=2e-3,
    epoch_s=0.1,
    start_s=0.5,
    utilisation=0.5,
    overlaps=False,
)
#: 1,079 images to train on, 359 to validate and as many to test.
DIGITS = find("digits")


def digits_work(**recipe: object) -> Workload:
    of = spec("mlp", "digits", {}, {"epochs": 3, "batch_size": 100, **recipe})
    work = estimates.workload(of, DIGITS, COUNTS)
    assert isinstance(work, Workload)
    return work


def test_training_is_three_passes_validation_and_test_one() -> None:
    work = digits_work()
    steps, scored = 3 * 10, 3 * 359 + 359
    passes = 3 * steps * 100 + scored
    assert work.flops == passes * 1000
    assert work.convolved == passes * 400
    assert work.numbers == passes * 50
    assert work.kernels == (3 * steps + scored / 100) * 7
    assert (work.steps, work.epochs) == (steps + scored / 100 / 2, 3)
    # Weights, gradients, and adamw's two moments; a batch of outputs of four bytes each.
    assert work.weights_bytes == 4 * 100 * 4
    assert work.activation_bytes == 4 * 100 * 50


def test_weights_that_are_only_scored_have_neither_gradients_nor_steps() -> None:
    work = digits_work(epochs=0)
    assert (work.flops, work.weights_bytes, work.activation_bytes) == (359 * 1000, 400, 0)


def test_a_recipe_of_steps_takes_as_many_and_validates_after_each_epoch() -> None:
    of = spec("mlp", "digits", {}, {"steps": 25, "batch_size": 100})
    work = estimates.workload(of, DIGITS, COUNTS)
    assert isinstance(work, Workload)
    assert work.flops == (3 * 25 * 100 + 3 * 359 + 359) * 1000


def test_parts_of_a_batch_take_less_memory_and_averaged_weights_more() -> None:
    assert digits_work(accumulate=4).activation_bytes == 4 * 25 * 50
    assert digits_work(ema=0.99).weights_bytes == 4 * 100 * 5
    assert digits_work(optimizer="sgd").weights_bytes == 4 * 100 * 3


def test_seconds_are_products_numbers_and_launches() -> None:
    of = spec("mlp", "digits")
    work = Workload(3e6, 1e6, 1e8, 100, 8e9, 8e9)
    found = estimates.estimate(of, work, SLOW)
    assert found.seconds == pytest.approx(0.5 + (2 / 1 + 1 / 2) / 0.5 + 0.8 + 0.1)
    shared = estimates.estimate(of, work, SLOW, devices=2)
    assert shared.seconds == pytest.approx(0.5 + ((2 / 1 + 1 / 2) / 0.5 + 0.8) / 2 + 0.1)
    longer = estimates.estimate(of, replace(work, steps=30, epochs=4), SLOW)
    assert longer.seconds == pytest.approx(found.seconds + 30 * 2e-3 + 4 * 0.1)
    # A GPU computes while the next kernels are launched.
    overlapping = estimates.estimate(of, replace(work, kernels=7e3), replace(SLOW, overlaps=True))
    assert overlapping.seconds == pytest.approx(0.5 + 7)


def test_a_run_that_does_not_fit_says_how_many_devices_would_hold_it() -> None:
    of = spec("mlp", "digits")
    work = Workload(1, 0, 1, 1, 60e9, 200e9)
    small = replace(SLOW, memory_bytes=int(80e9))
    assert estimates.estimate(of, work, small).devices_needed == 4
    assert estimates.estimate(of, work, replace(SLOW, memory_bytes=int(1e12))).devices_needed == 1


def test_a_machine_without_the_precision_is_refused_in_a_line() -> None:
    of = spec("mlp", "digits", {}, {"precision": "bf16"})
    with pytest.raises(UserError, match=r"t4 does not compute in bf16; see recipe\.precision"):
        estimates.estimate(of, Workload(1, 0, 1, 1, 1, 1), machines.named("t4"))


@pytest.mark.parametrize(
    ("data", "sizes"),
    [
        (find("digits", shots=5), {"train": 50, "val": 359, "test": 359}),
        (find("digits", shifts=2), {"train": 1079, "val": 359, "test": 3 * 359}),
        (find("mnli"), {"train": 353432, "val": 39270, "test": 9815 + 9832}),
        # 7.87e9 tokens in texts of 126: 30.5 thousand batches of 2,048, as was counted by hand.
        (find("c4-realnewslike"), {"train": 62_460_317, "val": 58_895, "test": 62_805}),
    ],
)
def test_examples_of_a_data_set(data, sizes) -> None:
    assert estimates.examples(data) == pytest.approx(sizes, rel=1e-4)


def test_what_shows_when_it_is_read_is_not_known_before() -> None:
    found = estimates.examples(find("text:somewhere"))
    assert found == Unknown("how long text:somewhere is shows when it is read")


def test_texts_are_padded_to_about_their_own_length() -> None:
    assert estimates.mean_length(find("sst2")) == pytest.approx(13.28 / 128, rel=1e-3)
    assert estimates.mean_length(find("sst2", length=8)) == 1
    assert estimates.mean_length(DIGITS) == 1


def test_a_model_that_can_t_be_counted_is_not_estimated() -> None:
    found = estimates.workload(spec("mlp", "digits"), DIGITS, {"error": "no such thing"})
    assert found == Unknown("no such thing")


def test_counted_and_estimated_by_name() -> None:
    layers = {"width": 16, "depth": 1}
    of = spec("mlp", "digits", layers, {"epochs": 2, "batch_size": 100})
    (found,) = estimates.estimates([of], lambda: SLOW)
    assert isinstance(found, estimates.Estimate)
    (counted,) = catalogue.counts([("mlp", layers | DIGITS.facts())])
    assert counted["operations"] > 0
    assert found.flops == (3 * 2 * 10 * 100 + 3 * 359) * counted["flops"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("a100:0", "a machine and a number of its devices, as in a100:8"),
        ("a100:8:2", "a machine and a number of its devices, as in a100:8"),
        ("h10:8", "unknown machine; did you mean 'h100' or .*; there are cpu, t4"),
    ],
)
def test_machines_that_nobody_knows(words: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        machines.named(words)


def test_a_named_machine_has_its_cards_sheet() -> None:
    found = machines.named("A100:8", utilisation=0.3)
    assert (found.devices, found.flops["bf16"], found.utilisation) == (8, 312e12, 0.3)
    assert machines.named("v100").flops.keys() == {"fp32", "fp16"}
