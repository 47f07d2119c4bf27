"""Images from bytes to uint8 pixels of one size, many at once."""

import io
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image, UnidentifiedImageError

from lightning_bench.common.machine import usable_cores
from lightning_bench.common.messages import first_line
from lightning_bench.data import progress
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources.readers import Encoded

_MODES = {1: "L", 3: "RGB"}


def decode_all(
    where: str,
    pieces: Iterable[list[Encoded]],
    *,
    channels: int,
    size: int,
    wanted: Collection[int],
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the wanted rows' pixels in order, decoded on all cores (PIL lets go of the GIL).

    DataError names the row that doesn't decode.
    """

    def one(numbered: tuple[int, Encoded]) -> tuple[int, np.ndarray]:
        row, encoded = numbered
        try:
            return row, square(open_image(encoded.bytes, channels=channels, near=size), size)
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
    image = Image.open(io.BytesIO(data))
    if near:
        image.draft(_MODES[channels], (near, near))
    image.load()
    return image if image.mode == _MODES[channels] else image.convert(_MODES[channels])


def square(image: Image.Image, size: int, *, crop: float = 1.0) -> np.ndarray:
    """Return the middle, resized to size × size, as C×H×W; `crop` of the shorter side is kept."""
    width, height = image.size
    if (width, height) != (size, size) or crop < 1:
        side = min(width, height) * crop
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        image = image.resize((size, size), Image.Resampling.BICUBIC, box=box)
    return pixels(image)


def pixels(image: Image.Image) -> np.ndarray:
    """The image as C×H×W."""
    array = np.asarray(image)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def reason(error: Exception) -> str:
    """The first line of what went wrong."""
    # PIL prints the address of the buffer, which is no help.
    return "not an image" if isinstance(error, UnidentifiedImageError) else first_line(error)
