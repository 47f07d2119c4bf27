"""The slot for data that nobody else has, filled as the pages tell, by a folder of tar files."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from lightning_bench import studies
from lightning_bench.bench.run.training import train
from lightning_bench.bench.study.load import load
from lightning_bench.data import dataset
from tests.factory import spec


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """40 images of two classes in four tar files, as WebDataset makes them."""
    draw, folder = np.random.default_rng(0), tmp_path / "shards"
    folder.mkdir()
    for number in range(4):
        with tarfile.open(folder / f"{number}.tar", "w") as file:
            for i in range(10):
                stream = io.BytesIO()
                shade = draw.normal(80 + 90 * (i % 2), 20, (24, 24, 3)).clip(0, 255)
                Image.fromarray(shade.astype(np.uint8)).save(stream, "PNG")
                for suffix, data in ((".png", stream.getvalue()), (".cls", b"%d" % (i % 2))):
                    member = tarfile.TarInfo(f"{number}{i:03}{suffix}")
                    member.size = len(data)
                    file.addfile(member, io.BytesIO(data))
    return folder


@pytest.mark.parametrize("name", ["pretrained-transfer", "vit-transfer"])
def test_the_slot_is_filled_as_the_page_says(name: str, shards: Path, tmp_path: Path) -> None:
    text = studies.pages()[name].read_text(encoding="utf-8")
    head = [line.removeprefix("#") for line in text.splitlines() if line.startswith("#")]
    start = next(i for i, line in enumerate(head) if line.strip() == "stages:")
    told = [line for line in head[start:] if line.startswith("   ")]
    own = yaml.safe_load("\n".join(told).replace("PATH", str(shards)))
    page = yaml.safe_load(text)
    for part in ("stages", "entries"):
        page["scales"]["full"].setdefault(part, {}).update(own[part])
    path = tmp_path / f"{name}-own.yaml"
    path.write_text(yaml.safe_dump(page), encoding="utf-8")
    study = load(str(path), "full")
    (stage,) = [run for run in study.before() if run.entry.startswith("own ")]
    assert stage.spec.data.name == f"folder:{shards}"
    (label,) = own["entries"]
    spec_ = next(run.spec for run in study.runs() if run.entry == label)
    assert spec_.start == stage.spec
    for data in (stage.spec.data, spec_.data):  # patches of 14 fit
        assert (data.image_size or 224) % 14 == 0


def test_a_folder_of_tar_files_larger_than_memory_is_trained_on(
    shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(dataset, "IN_MEMORY_BYTES", 1000)
    args: dict[str, Any] = {"patch": 4, "width": 8, "depth": 1, "token_width": 8}
    args |= {"channel_width": 8}
    data = {"name": f"folder:{shards}", "image_size": 16}
    of = spec("mixer", data, args, {"epochs": 4, "batch_size": 8, "lr": 1e-2})
    outcome = train(of, device="cpu", on_epoch=lambda _: None, keep_weights=True)
    assert (outcome.data.train, outcome.data.val, outcome.scored) == (32, 4, 4)
    assert outcome.metrics["accuracy"] == 1.0
    assert outcome.weights is not None
