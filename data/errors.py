"""What can be wrong with data, in one line."""


class DataError(Exception):
    """Says what is wrong, where (data set, split, row), and what to do next."""
