"""Mistakes that the user can mend, and how to say them in one line."""


class UserError(Exception):
    """Printed as one line that says what, where and what to do next; exit code 2."""
