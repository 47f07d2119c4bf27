"""What goes wrong with models, said in one line that names the nearest right answer."""


class ModelError(ValueError):
    """A wrong argument, value or shape; the message says what, where and what to do next."""


class UnknownModel(ModelError):
    """No model has this name."""
