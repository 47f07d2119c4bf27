"""Draw the image folder and its table of labels: python data/make_shapes.py"""

import csv
import random
from pathlib import Path

from PIL import Image, ImageDraw

HERE = Path(__file__).parent
SHAPES = ("circle", "square", "triangle")


def draw(shape, rng):
    image = Image.new("RGB", (16, 16), tuple(rng.randrange(90) for _ in range(3)))
    x, y, r = rng.randrange(5, 11), rng.randrange(5, 11), rng.randrange(3, 5)
    colour = tuple(rng.randrange(120, 256) for _ in range(3))
    pen = ImageDraw.Draw(image)
    if shape == "circle":
        pen.ellipse((x - r, y - r, x + r, y + r), fill=colour)
    elif shape == "square":
        pen.rectangle((x - r, y - r, x + r, y + r), fill=colour)
    else:
        pen.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=colour)
    return image


if __name__ == "__main__":
    rng, rows = random.Random(0), []
    (HERE / "shapes").mkdir(exist_ok=True)
    for number in range(420):
        shape = SHAPES[number % 3]
        name = f"shapes/{number:03}.png"
        draw(shape, rng).save(HERE / name)
        part = "test" if number % 7 == 0 else "val" if number % 7 == 1 else "train"
        rows.append({"file": name, "shape": shape, "part": part})
    with (HERE / "shapes.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=["file", "shape", "part"])
        writer.writeheader()
        writer.writerows(rows)
