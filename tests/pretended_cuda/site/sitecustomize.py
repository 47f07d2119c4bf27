"""Python imports this in every process: it has torch, Lightning and NVML patched once imported."""

import importlib
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The module that patches another one, by that one's name.
PATCHES = {
    "torch": "pretended_torch",
    "pynvml": "pretended_nvml",
    "triton.runtime.driver": "pretended_triton",
}


class PatchingLoader(Loader):
    """Loads a module as before, then has it patched."""

    def __init__(self, loader: Loader, patch: str) -> None:
        self.loader, self.patch = loader, patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As before."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As before, and patch it."""
        self.loader.exec_module(module)
        importlib.import_module(self.patch).patch(module)

    def __getattr__(self, name: str) -> object:
        return getattr(self.loader, name)


class PatchingFinder(MetaPathFinder):
    """Finds the modules that are to be patched."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec that the others find, with our loader around theirs."""
        if name not in PATCHES:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)):
                spec.loader = PatchingLoader(spec.loader, PATCHES[name])
                return spec
        return None


if "PRETENDED_CUDA" in os.environ:
    import pretended_host

    pretended_host.bind_task()
    sys.meta_path.insert(0, PatchingFinder())

if "DEVICE_LINES" in os.environ:
    from pathlib import Path

    import device_lines

    device_lines.start(Path(os.environ["DEVICE_LINES"]))
