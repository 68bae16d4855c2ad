"""The shape environment of the quick tracer: torch's own, without the parts that import all of torch's compiler."""

from __future__ import annotations

import os
import sys
import traceback

import torch
from torch._guards import Source
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, SLoc

_TORCH = os.path.dirname(torch.__file__) + os.sep
#: Frames of the shape environment itself: a condition belongs to whoever called it.
_MACHINERY = frozenset(
    os.path.join(_TORCH, *path.split("/"))
    for path in (
        "__init__.py",
        "_compile.py",
        "_dynamo/eval_frame.py",
        "_logging/_internal.py",
        "_logging/structured.py",
        "_subclasses/fake_tensor.py",
        "_subclasses/meta_utils.py",
        "fx/experimental/recording.py",
        "fx/experimental/sym_node.py",
        "fx/experimental/symbolic_shapes.py",
    )
)


class Env(ShapeEnv):
    """A shape environment that notes who asked for a condition without importing all of torch's compiler."""

    def _get_stack_summary(self, is_debug: bool = False, framework_loc=None):
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in _MACHINERY:
            frame = frame.f_back
        code = frame.f_code
        return SLoc(
            traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name, lookup_line=False), None
        ), ""

    def new_size(self, size: int, tensor: int, axis: int, oblivious: bool) -> torch.SymInt:
        """The size of an axis of an input, which may be any; ``oblivious``: 0 and 1 included."""
        source = _Axis(tensor, axis)
        symbol = self.create_symbol(size, source, DimDynamic.DYNAMIC, do_not_specialize_zero_one=oblivious)
        if oblivious:
            self.size_like.add(symbol)
        return self.create_symintnode(symbol, hint=size, source=source)


class _Axis(Source):
    """An axis of an input."""

    def __init__(self, tensor: int, axis: int):
        self.place = f"{tensor}_{axis}"

    @property
    def _name_template(self) -> str:
        return self.place
