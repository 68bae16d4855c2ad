"""disc: a model is compiled once and runs on inputs of any size.

>>> import disc
>>> disc.Dim("S", max=512).max
512
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .core.dims import Dim
from .core.errors import CompileError, DimError, Error, PackageError, ShapeError, UnsupportedOp
from .core.options import Options

if TYPE_CHECKING:
    from .core.capturing import capture
    from .core.exporting import export
    from .core.extension import devices
    from .core.loaded import Package, load
    from .core.package import clear_cache
    from .core.profiling import Profile, profile
    from .core.report import Report, report
    from .torch.checks.compare import CheckResult
    from .torch.files.export import save
    from .torch.module.check import check
    from .torch.module.optimize import optimize
    from .torch.module.optimized import OptimizedModule

__all__ = [
    "CheckResult",
    "CompileError",
    "Dim",
    "DimError",
    "Error",
    "OptimizedModule",
    "Options",
    "Package",
    "PackageError",
    "Profile",
    "Report",
    "ShapeError",
    "UnsupportedOp",
    "capture",
    "check",
    "clear_cache",
    "devices",
    "export",
    "load",
    "optimize",
    "profile",
    "report",
    "save",
]

#: When this package was loaded: files of it that are newer are not what runs.
_LOADED_NS = time.time_ns()

#: The modules of the functions: torch is imported by the first one that needs it, not by ``import
#: disc``.
_LAZY = {
    "optimize": "torch.module.optimize",
    "OptimizedModule": "torch.module.optimized",
    "report": "core.report",
    "Report": "core.report",
    "capture": "core.capturing",
    "check": "torch.module.check",
    "CheckResult": "torch.checks.compare",
    "export": "core.exporting",
    "load": "core.loaded",
    "Package": "core.loaded",
    "save": "torch.files.export",
    "clear_cache": "core.package",
    "profile": "core.profiling",
    "Profile": "core.profiling",
    "devices": "core.extension",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str):
    if name == "__version__":
        from . import _disc

        return _disc.__version__
    if name in _LAZY:
        import importlib

        try:
            module = importlib.import_module(f".{_LAZY[name]}", __name__)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            from .core.errors import without_torch

            raise without_torch(name) from error
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
