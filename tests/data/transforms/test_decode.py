"""Decoding on all cores, of images in every mode of Pillow's."""

import io
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lightning_bench.data.catalogue import find
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules.image_data import ImageData
from lightning_bench.data.modules.streamed_images import StreamedImages
from lightning_bench.data.transforms.decode import open_image
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


#: 64 shades, each of which 8 bits tell apart.
SHADES = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4 + 3
DEEP = SHADES.astype(np.uint16) * 256 + 77


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """The file that Pillow writes."""
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def tiff(values: np.ndarray, bits: int, sample_format: int) -> bytes:
    """A grey TIFF of a type that Pillow reads but does not write."""
    height, width = values.shape
    content = values.tobytes()
    shorts = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 277: 1, 278: height}
    tags = [(tag, 3, value) for tag, value in shorts.items()]
    tags += [(273, 4, 8), (279, 4, len(content)), (339, 3, sample_format)]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, at) for tag, kind, at in sorted(tags))
    folder = struct.pack("<H", len(tags)) + entries + bytes(4)
    return b"II*\0" + struct.pack("<I", 8 + len(content)) + content + folder


def palette(mode: str) -> Image.Image:
    """The shades by a palette of three, the first of which is transparent."""
    image = Image.fromarray((SHADES // 4 % 3).astype(np.uint8), "P")
    image.putpalette([200, 10, 10, 10, 200, 10, 10, 10, 200])
    return image.convert(mode) if mode != "P" else image


GREY = Image.fromarray(SHADES)
CLEAR = Image.fromarray(SHADES[::-1].copy())  # an alpha channel
COLOUR = Image.merge("RGB", [GREY, GREY.rotate(90), GREY.rotate(180)])
CMYK = Image.merge("CMYK", [*COLOUR.split(), Image.new("L", (8, 8))])
UNSIGNED_32 = DEEP.astype(np.uint32) * 65_536 + 9
BIG_ENDIAN = Image.frombytes("I;16B", (8, 8), DEEP.astype(">u2").tobytes())
FLOATS = (SHADES / np.float32(255)).astype(np.float32)


@pytest.mark.parametrize(
    ("mode", "content"),
    [
        ("I;16", encoded(Image.fromarray(DEEP), "PNG")),
        ("I;16", encoded(Image.fromarray(DEEP), "TIFF")),
        ("I;16B", encoded(BIG_ENDIAN, "TIFF")),
        ("I", encoded(Image.fromarray(DEEP), "PPM")),
        ("I", b"P5 8 8 4095\n" + (DEEP >> 4).astype(">u2").tobytes()),
        ("I", encoded(Image.fromarray((UNSIGNED_32 - 2**31).astype(np.int32)), "TIFF")),
        ("I", tiff(UNSIGNED_32, 32, 1)),
        ("I", tiff((DEEP - 2**15).astype(np.int16), 16, 2)),
        ("F", encoded(Image.fromarray(FLOATS), "TIFF")),
    ],
    ids=["png16", "tiff16", "tiff16B", "pgm16", "pgm12", "tiff32s", "tiff32u", "tiff16s", "float"],
)
def test_deeper_images_keep_their_shades(mode: str, content: bytes) -> None:
    assert Image.open(io.BytesIO(content)).mode == mode
    grey = np.asarray(open_image(content, channels=1))
    assert np.array_equal(grey, SHADES)
    colour = np.asarray(open_image(content, channels=3, near=8))
    assert np.array_equal(colour, np.stack([SHADES] * 3, axis=-1))


def test_an_image_of_12_bits_is_scaled_by_12() -> None:
    twelve = (DEEP >> 4).astype(np.uint16)
    high, low = twelve.reshape(-1, 2).T.astype(np.uint32)
    packed = np.stack([high >> 4, (high & 15) << 4 | low >> 8, low & 255], axis=1)
    content = tiff(packed.astype(np.uint8).reshape(8, 12), 12, 1).replace(
        struct.pack("<HHII", 256, 3, 1, 12), struct.pack("<HHII", 256, 3, 1, 8)
    )
    assert Image.open(io.BytesIO(content)).mode == "I;16"
    assert np.array_equal(np.asarray(open_image(content, channels=1)), SHADES)


@pytest.mark.parametrize(
    ("mode", "content", "pixels"),
    [
        ("L", encoded(GREY, "PNG"), np.stack([SHADES] * 3, axis=-1)),
        ("RGB", encoded(COLOUR, "PNG"), np.asarray(COLOUR)),
        ("RGBA", encoded(Image.merge("RGBA", [*COLOUR.split(), CLEAR]), "PNG"), np.asarray(COLOUR)),
        ("LA", encoded(Image.merge("LA", [GREY, CLEAR]), "PNG"), np.stack([SHADES] * 3, axis=-1)),
        ("P", encoded(palette("P"), "PNG", transparency=0), np.asarray(palette("RGB"))),
        ("PA", encoded(palette("PA"), "TIFF"), np.asarray(palette("RGB"))),
        ("CMYK", encoded(CMYK, "TIFF"), 255 - np.asarray(COLOUR)),
        (
            "1",
            encoded(Image.fromarray(SHADES > 127), "PNG"),
            np.stack([(SHADES > 127) * np.uint8(255)] * 3, axis=-1),
        ),
    ],
    ids=["L", "RGB", "RGBA", "LA", "P", "PA", "CMYK", "1"],
)
def test_images_of_8_bits_are_as_they_were(mode: str, content: bytes, pixels: np.ndarray) -> None:
    opened = Image.open(io.BytesIO(content))
    assert opened.mode == mode
    assert np.array_equal(np.asarray(open_image(content, channels=3)), pixels)
    if mode in {"L", "LA", "1"}:
        assert np.array_equal(np.asarray(open_image(content, channels=1)), pixels[..., 0])
    # And as Pillow converts them, which is what earlier versions did.
    for channels, plain in ((1, "L"), (3, "RGB")):
        converted = Image.open(io.BytesIO(content)).convert(plain)
        assert np.array_equal(open_image(content, channels=channels), converted)


@pytest.mark.parametrize("module", [ImageData, StreamedImages])
def test_two_classes_of_16_bits_are_told_apart(
    module: type[ImageData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    for name, level in (("dim", 12_000), ("light", 48_000)):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(20):
            flat = Image.fromarray(np.full((16, 16), level + i, np.uint16))
            flat.save(tmp_path / "set" / name / f"{i}.png")
    entry = replace(find(f"folder:{tmp_path}/set", image_size=16), mean=(0.5,) * 3, std=(0.5,) * 3)
    assert entry.policy.endswith("more than 8 bits a pixel are scaled to 8")
    data = module(entry, batch_size=8, seed=0)
    data.setup()
    seen = {
        (int(label), int(data.pixels("train", row).mean()))
        for row, label in enumerate(data._labels_of()["train"])
    }
    assert seen == {(0, 12_000 >> 8), (1, 48_000 >> 8)}


@pytest.mark.parametrize("module", [ImageData, StreamedImages])
def test_floats_of_an_unknown_range_are_refused_by_row(
    module: type[ImageData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(20):
            scale = 300 if (name, i) == ("b", 3) else 1
            Image.fromarray(FLOATS * scale).save(tmp_path / "set" / name / f"{i:02}.tif")
    entry = replace(find(f"folder:{tmp_path}/set", image_size=8), mean=(0.5,) * 3, std=(0.5,) * 3)
    data = module(entry, batch_size=4, seed=0)
    told = r"row 23 \(.*set/b/03.tif\): the image doesn't decode: floats from 3.5\d* to 300;"

    def read_all() -> None:
        data.setup()
        for split in ("train", "val", "test"):
            for row in range(data.sizes[split]):
                data.pixels(split, row)

    with pytest.raises(DataError, match=told):
        read_all()
