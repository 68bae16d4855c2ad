"""The exceptions of disc. Each carries a code; every failure that a user can cause is one of these classes.

It is not a place for messages: those are written where the failure is found.
"""

from __future__ import annotations

#: code -> what it means, for the codes that the Python side raises. Codes of the compiler core have smaller numbers.
CODES = {
    "E0700": "an argument of a disc function is not acceptable",
    "E0701": "the module could not be captured",
    "E0702": "operations of the model are not supported",
    "E0703": "an argument of a call has the wrong type, dtype, device or layout",
    "E0704": "an argument of a call has the wrong rank",
    "E0705": "a size of a call violates the signature",
    "E0706": "a value of a call differs from the one that was compiled in",
    "E0707": "a dimension that was declared dynamic is fixed by the model",
    "E0708": "a call asks for gradients",
    "E0709": "not available in this version",
    "E0710": "the model changes one of its inputs or buffers",
    "E0711": "the compiled extension is missing or failed",
    "E0712": "a package could not be written or read",
}


class Error(RuntimeError):
    """Base of all errors of disc.

    ``code`` looks like ``"E0702"``; ``op`` names the operation at fault, ``dims`` the dimensions, ``help`` says what to do.
    Each may be None except ``code``.
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

    default_code = "E0702"


class ShapeError(Error):
    """A rank or size that does not fit the operation or the call."""

    default_code = "E0704"


class DimError(Error):
    """A dimension is outside what was declared or proved for it; the message names the dim, the size met and the fact."""

    default_code = "E0705"


class CompileError(Error):
    """The compiler failed on a model that it should accept."""

    default_code = "E0711"


class PackageError(Error):
    """A package could not be written or read."""

    default_code = "E0712"
