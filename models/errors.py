"""Exceptions about models, whose messages are one line for the user."""


class ModelError(ValueError):
    """A wrong argument, value or shape; the message says what, where and what to do next."""


class UnknownModel(ModelError):
    """No model has this name."""
