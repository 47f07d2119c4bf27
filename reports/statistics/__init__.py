"""Statistics: pure functions from samples to intervals, tests and rankings."""
