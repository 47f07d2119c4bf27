"""One command a module: `bench run` is `run.py`."""
