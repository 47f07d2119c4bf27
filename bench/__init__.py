"""The harness: specs, plan, store, execution, measurement and the command line."""

__version__ = "0.1.0"
