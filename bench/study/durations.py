"""Lengths of time on a page and the command line: `15m`, `2.5h`, or a number of seconds."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from lightning_bench.common.messages import seconds


def _seconds(value: Any) -> Any:
    return seconds(value) if isinstance(value, str) else value


#: In seconds.
Duration = Annotated[float, BeforeValidator(_seconds), Field(gt=0, allow_inf_nan=False)]
