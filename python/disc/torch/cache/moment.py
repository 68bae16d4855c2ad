"""Notes what a walk would find at a moment, of what nobody watches: context variables, and which
modules of Python are loaded.
"""

from __future__ import annotations

import contextvars
import sys
import types
from dataclasses import dataclass
from typing import Any

from .doubts import Unsure
from .kinds import PLAIN


@dataclass(frozen=True)
class Moment:
    """A moment before code of a module ran."""

    context: contextvars.Context
    loaded: frozenset[str]

    @classmethod
    def now(cls) -> Moment:
        return cls(contextvars.copy_context(), frozenset(sys.modules))

    def has(self, module: types.ModuleType) -> bool:
        """Returns true for a module of Python that was not loaded since: others than those that are
        imported (``torch.ops.aten``) are in no list.
        """
        return module.__name__ in self.loaded or module.__name__ not in sys.modules

    def variable(self, x: contextvars.ContextVar) -> Any:
        """The value of a context variable."""
        value = self.context.run(x.get, None)
        if type(value) not in PLAIN:
            raise Unsure(f"the object in the context variable {x.name}, after the capture")
        return value
