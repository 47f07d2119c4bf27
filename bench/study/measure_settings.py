"""Measurement settings of speed and memory, as a study's page gives them."""

from typing import Annotated, Literal

from pydantic import Field

from lightning_bench.bench.spec import Precision, Settings

MeasureMode = Literal["infer", "train"]


class Measure(Settings):
    """What the page's `measure:` says: each entry's model is measured on each data set's input."""

    mode: Annotated[list[MeasureMode], Field(min_length=1)] = ["infer", "train"]
    batch_size: Annotated[int, Field(ge=1, description="of every model alike")] = 32
    precision: Precision = "fp32"
    compile: bool = False
    threads: Annotated[int, Field(ge=1, description="CPU threads of a model's process")] = 1
    quick: Annotated[bool, Field(description="short warm-up, short blocks")] = False
    data: Annotated[
        list[str], Field(description="on their inputs alone; by default on those of all")
    ] = []
