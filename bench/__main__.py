"""`python -m bench` is `bench`."""

from bench.cli import main

main()
