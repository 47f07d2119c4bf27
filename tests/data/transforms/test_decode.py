"""Decoding on all cores."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lightning_bench.data.catalogue import find
from lightning_bench.data.modules.image_data import ImageData
from lightning_bench.data.modules.streamed_images import StreamedImages
from tests.data import tiny


@pytest.mark.parametrize("module", [ImageData, StreamedImages])
def test_images_are_loaded_where_no_affinities_are_told(
    module: type[ImageData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    entry = replace(find("cifar10", image_size=16), mean=(0.5,) * 3, std=(0.5,) * 3)
    tiny.write(entry, tmp_path)
    data = module(entry, batch_size=8, seed=0, sample=True)
    data.setup()
    (test,) = data.test_dataloader()
    assert sum(len(batch.inputs[0]) for batch in test) == data.sizes["test"] == tiny.OTHERS
