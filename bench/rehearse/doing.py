"""What a rehearsal is at, and the one line that a failure becomes."""

import traceback
from dataclasses import dataclass
from pathlib import Path

from lightning_bench.bench.run.loading import DataProblem
from lightning_bench.common.memory import is_out_of_memory
from lightning_bench.data.errors import DataError
from lightning_bench.models.errors import ModelError

_LONGEST = 300


@dataclass
class Doing:
    """The part of a run that is rehearsed now: data, model, weights, training, resume."""

    now: str = "data"

    def cause(self, error: BaseException) -> str:
        """What failed, in one line: the part, the exception, and where it was raised."""
        text = " ".join(str(error).split())[:_LONGEST]
        if is_out_of_memory(error):
            return f"memory: {self.now}: {text}"
        if isinstance(error, DataProblem | DataError):
            return f"data: {text}"
        if isinstance(error, ModelError):
            return f"model: {text}"
        kind = type(error).__name__
        named = f"{kind}: {text}" if text else kind
        return f"{self.now}: {named}{_place(error)}"


def _place(error: BaseException) -> str:
    """The file and line of the innermost frame, of a model rather than of torch's own calls."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    own = [frame for frame in frames if "/torch/" not in frame.filename] or frames
    last = own[-1]
    return f" ({Path(last.filename).name}:{last.lineno})"
