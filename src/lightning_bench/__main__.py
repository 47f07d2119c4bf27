"""`python -m lightning_bench` is `bench`."""

import os
import sys

# With -m, Python puts the working directory first: a torch.py there would be taken for torch.
if not sys.flags.safe_path and sys.path[0] in {"", os.getcwd()}:  # noqa: PTH109 - nothing but os yet
    del sys.path[0]

from lightning_bench.bench.cli import main

main()
