"""Interfaces of torch that are not documented, used here alone.

`tests/bench/rehearse/test_compat.py` fails where one of them changes.
"""

# Tensors without memory that are on the CPU by name: as the meta device, for models that ask where
# they are. torch.compile stands on them; its documents describe the module under this name.
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)

#: What they raise where a value would be needed.
DYNAMIC = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)

__all__ = ["DYNAMIC", "FakeTensorMode"]
