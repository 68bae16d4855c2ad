"""Errors of a trace that is left to ``torch.export``."""


class NotTraced(Exception):
    """The module does something that is left to ``torch.export``."""


class Transformed(NotTraced):
    """A tensor of a transform of ``torch.func``:
    what its ops are is only known below the transform.
    """
