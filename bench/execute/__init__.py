"""Executing a plan: the executor, the launchers that start processes, and devices."""
