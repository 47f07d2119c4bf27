"""The process that looks at data of the user's own code: prints their facts, and what it opened."""

import json
import sys
from pathlib import Path
from typing import Any

from lightning_bench.bench.study import inputs
from lightning_bench.common.folders import cache_folder
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules import user_data_module

#: More files than this are not followed: to look at them all would take longer than to be told.
_MOST = 5_000


class OpenedFiles:
    """The data files that this process opens for reading, told by the interpreter's audit hook."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}
        sys.addaudithook(self._hear)

    def _hear(self, event: str, details: tuple[Any, ...]) -> None:
        if event != "open" or len(self.paths) >= _MOST or not isinstance(details[0], str):
            return
        path, mode, _ = details
        code = path.endswith((".py", ".pyc", ".so")) or path.startswith(("/proc", "/sys", "/dev"))
        if not code and not set("wax+") & set(mode or "r"):
            self.paths.setdefault(path)

    def states(self) -> list[tuple[str, int, int]]:
        """Each file with its size and time, but for those of installed packages and caches."""
        apart = tuple({sys.prefix, sys.base_prefix, str(cache_folder())})
        found = [Path(path).absolute() for path in self.paths]
        kept = [path for path in found if path.is_file() and not str(path).startswith(apart)]
        states = [(str(path), path.stat()) for path in kept]
        return [(path, state.st_size, state.st_mtime_ns) for path, state in states]


def main(name: str, arguments: str) -> dict[str, Any]:
    """The facts, or the error."""
    opened = OpenedFiles()
    try:
        facts = user_data_module.facts(name, arguments)
    except DataError as error:
        return {"error": str(error)}
    return {"facts": facts, "files": opened.states()}


if __name__ == "__main__":
    assert inputs  # which says how a module of the user's is imported
    told = main(*sys.argv[1:3])
    print(f"\n{json.dumps(told)}", flush=True)  # noqa: T201
