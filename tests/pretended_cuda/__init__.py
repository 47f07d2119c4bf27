"""Pretended CUDA: the whole harness on GPUs that are none, with fakes at the CUDA calls alone.

`environment.pretended(folder, devices=2)` is what a test gives to `tests.commands.bench(env=...)`.
Through it each process of that command, whoever starts it, imports `site/sitecustomize.py`.
"""
