"""The exceptions of disc.

Each carries a code; every failure that a user can cause is one of these classes.

It is not a place for messages: those are written where the failure is found. What each code means
is in docs/errors.md; the table of codes is that of the compiler core, and the codes that only the
Python package raises are in it too.
"""

from __future__ import annotations


class Error(RuntimeError):
    """Base of all errors of disc.

    Each attribute may be None, except ``code`` and ``message``.

    Attributes:
        code: A code such as ``"E0401"``.
        message: The text without code and help.
        op: The operation at fault.
        dims: The dimensions at fault.
        help: A proposal of what to do.
    """

    default_code = "E0700"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        op: str | None = None,
        dims=None,
        help: str | None = None,
    ):
        self.code = code or self.default_code
        self.message = message
        self.op = op
        self.dims = dims
        self.help = help
        super().__init__(message)

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text}\nhelp: {self.help}" if self.help else text


class UnsupportedOp(Error):
    """Operations of the model that disc cannot compile; the message lists all of them."""

    default_code = "E0401"


class ShapeError(Error):
    """A rank or size that does not fit the operation or the call."""

    default_code = "E0601"


class DimError(Error):
    """A dimension is outside what was declared or proved for it; the message names the dim,
    the size met and the fact.
    """

    default_code = "E0602"
    #: The fact that the call breaks, if it is one that the model implied.
    fact: str | None = None
    #: The size that the call has where the program has only one size.
    size: int | None = None


class CompileError(Error):
    """The compiler failed on a model that it should accept."""

    default_code = "E0802"


class PackageError(Error):
    """A package could not be written or read."""

    default_code = "E0901"


def without_torch(name: str) -> Error:
    """The error for a function of ``disc`` that needs torch, where torch is not installed."""
    return Error(
        f"disc.{name} is for modules of torch, which is not installed here",
        help="pip install 'disc-compiler[torch]'; disc.load runs packages without it",
    )


#: Codes of errors in data (an index out of range, an assertion), which name the op.
OF_DATA = frozenset(("E0603", "E0604"))
