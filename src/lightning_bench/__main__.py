"""`python -m lightning_bench` is `bench`."""

from lightning_bench.bench.cli import main

main()
