"""Images from bytes to uint8 pixels of one size, many at once."""

import io
import math
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import BITSPERSAMPLE, SAMPLEFORMAT, TiffImageFile

from lightning_bench.common.machine import usable_cores
from lightning_bench.common.messages import first_line
from lightning_bench.data import progress
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources.readers import Encoded

_MODES = {1: "L", 3: "RGB"}
_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
#: Of a TIFF's integers, in its SampleFormat.
_SIGNED = 2
#: Modes of more than 8 bits a pixel: PIL has grey images of them alone.
_DEEP = {"I", "I;16", "I;16B", "I;16L", "I;16N", "F"}


def decode_all(
    where: str,
    pieces: Iterable[list[Encoded]],
    *,
    channels: int,
    size: int,
    wanted: Collection[int],
    crop: float = 1.0,
    interpolation: str = "bicubic",
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the wanted rows' pixels in order, decoded on all cores (PIL lets go of the GIL).

    DataError names the row that doesn't decode.
    """

    def one(numbered: tuple[int, Encoded]) -> tuple[int, np.ndarray]:
        row, encoded = numbered
        try:
            image = open_image(encoded.bytes, channels=channels, near=math.ceil(size / crop))
            return row, square(image, size, crop=crop, interpolation=interpolation)
        except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
            name = f" ({encoded.name})" if encoded.name else ""
            raise DataError(
                f"{where}, row {row}{name}: the image doesn't decode: {reason(error)}"
            ) from None

    row = 0
    with ThreadPoolExecutor(usable_cores()) as pool:
        for piece in pieces:
            numbered = enumerate(piece, start=row)
            yield from pool.map(one, [pair for pair in numbered if pair[0] in wanted])
            row += len(piece)
            progress.report(f"{where}: {row:,} images")


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height, of which the header tells."""
    with Image.open(io.BytesIO(data)) as image:
        return image.size


def open_image(data: bytes, *, channels: int, near: int = 0) -> Image.Image:
    """Open in grey or colour; a JPEG is scaled while it decodes, to no less than `near` pixels."""
    opened = Image.open(io.BytesIO(data))
    if near:
        opened.draft(_MODES[channels], (near, near))
    opened.load()
    image = _scaled_to_8_bits(opened) if opened.mode in _DEEP else opened
    return image if image.mode == _MODES[channels] else image.convert(_MODES[channels])


def _scaled_to_8_bits(image: Image.Image) -> Image.Image:
    """A grey image of 8 bits: the range of its integer type scaled, or floats from 0 to 1.

    PIL's own conversion clips, so that all above 255 would be white. Of integers the high byte is
    taken, as PIL takes it of colours of 16 bits. ValueError where the range can't be known.
    """
    values = np.asarray(image)
    if image.mode == "F":
        low, high = values.min(), values.max()
        if not 0 <= low <= high <= 1:
            raise ValueError(f"floats from {low:g} to {high:g}; only 0 to 1 is scaled to 8 bits")
        return Image.fromarray(np.rint(values * 255).astype(np.uint8))
    bits, signed = _integer_type(image)
    least = -(1 << (bits - 1)) if signed else 0
    # PIL reads integers of 32 bits as signed ones.
    from_zero = (values.astype(np.int64) - least) & ((1 << bits) - 1)
    return Image.fromarray((from_zero >> (bits - 8)).astype(np.uint8))


def _integer_type(image: Image.Image) -> tuple[int, bool]:
    """How many bits the pixels of an opened file have, and whether they are signed."""
    if isinstance(image, TiffImageFile):
        (bits,), (kind,) = image.tag_v2[BITSPERSAMPLE], image.tag_v2.get(SAMPLEFORMAT, (1,))
        return bits, kind == _SIGNED
    if image.mode != "I" or image.format in {"PNG", "PPM"}:
        return 16, False
    raise ValueError(f"{image.format} images of 32 bits: their range is unknown")


def square(
    image: Image.Image, size: int, *, crop: float = 1.0, interpolation: str = "bicubic"
) -> np.ndarray:
    """Return the middle, resized to size × size, as C×H×W; `crop` of the shorter side is kept."""
    width, height = image.size
    if (width, height) != (size, size) or crop < 1:
        side = min(width, height) * crop
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        image = resized(image, size, box, interpolation)
    return pixels(image)


def resized(
    image: Image.Image, size: int, box: tuple[float, float, float, float], interpolation: str
) -> Image.Image:
    """The part of an image inside a box, at size × size."""
    return image.resize((size, size), _RESAMPLING[interpolation], box=box)


def pixels(image: Image.Image) -> np.ndarray:
    """The image as C×H×W."""
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def reason(error: Exception) -> str:
    """The first line of what went wrong."""
    # PIL prints the address of the buffer, which is no help.
    return "not an image" if isinstance(error, UnidentifiedImageError) else first_line(error)
