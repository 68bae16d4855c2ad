"""Collects the names that reached code uses, and finds what they reach in classes, tensors and
modules of Python.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Mapping
from typing import Any

import torch

from . import code_names
from .doubts import is_known

#: Functions that a class runs without being named.
_SPECIAL = re.compile(
    r"__(?!init_|new__|class_getitem__|reduce|del__|doc__|module__|dict__|weakref__|slots__|annot)\w+__"
)
_CODE = (types.FunctionType, property, staticmethod, classmethod)
_MAKING = frozenset(("__init__", "__new__", "__post_init__"))


class ReachedNames:
    """The names that reached code uses."""

    def __init__(self):
        #: Names that it spells.
        self.spelled: set[str] = {"forward"}
        #: Those of the names whose values are passed on.
        self.values: set[str] = set()
        #: Classes that reached code names: it may make objects of them.
        self.made: set[type] = set()
        #: Names that reached code computes, as regular expressions.
        self._patterns: set[str] = set()
        #: Texts that were met: names, as soon as any code looks up one that it does not spell
        #: itself.
        self.texts: set[str] = set()
        self._texts_met: set[str] = set()
        self._by_value = False

    def add(self, names: Mapping[str, Any], facts: code_names.Facts) -> None:
        """Adds ``names`` that a function uses, and those that it looks up."""
        self.spelled |= names.keys()
        self.values |= facts.values
        self._patterns |= facts.lookups.direct
        self.texts |= facts.lookups.texts
        self._by_value |= facts.lookups.by_value

    def add_text(self, text: str) -> None:
        """Adds the names in a text that was met."""
        if text not in self._texts_met:
            self._texts_met.add(text)
            self.texts.update(code_names.parts(text))

    def size(self) -> tuple[int, ...]:
        """Another value whenever a name was added that may reach more."""
        texts = len(self.texts) if self._by_value else -1
        return len(self.spelled), len(self.values), len(self._patterns), texts, len(self.made)

    def among(self, held: Mapping[str, Any], is_named_whole: bool, of_module: bool = False) -> set[str]:
        """The names among these that reached code may use;
        it names those of torch and Python in full.

        Texts from elsewhere are for what a ``torch.nn.Module`` has: as names of all that is met
        they reach nearly everything.
        """
        found = held.keys() & self.spelled
        if is_named_whole:
            return found
        if self._by_value and of_module:
            found |= held.keys() & self.texts
        if self._patterns:
            whole = _either(frozenset(self._patterns))
            found |= {name for name in held if whole.fullmatch(name)}
        return found


class Namespaces:
    """The classes, tensors and modules of Python in which names are looked up."""

    def __init__(self, names: ReachedNames):
        self._names = names
        self.classes: list[type] = []
        self.members: dict[type, dict[str, Any]] = {}
        #: Members of each class that no reached code has named yet.
        self._left: dict[type, dict[str, None]] = {}
        #: Attributes of tensors, each with the number of the tensor.
        self.attributes: list[tuple[int, dict[str, Any]]] = []
        #: Modules of Python that are values: names are looked up in them as in classes, in others
        #: those of who names the module.
        self.modules: list[types.ModuleType] = []
        #: Names that were looked up in a tensor or a module, and those that are being followed.
        self.done: set[tuple] = set()
        self.asking: set[tuple] = set()

    def add_class(self, kind: type) -> None:
        self.classes.append(kind)
        self.members[kind] = dict(vars(kind))

    def sizes(self) -> tuple[int, int, int]:
        """The numbers of classes, tensors with attributes and modules."""
        return len(self.classes), len(self.attributes), len(self.modules)

    def new_members(self, kind: type) -> list[str]:
        """Members of a class that reached code may use, and that were not met before;
        in an order that is always the same.
        """
        members, is_module = self.members[kind], issubclass(kind, torch.nn.Module)
        found: list[str] = []
        if kind not in self._left:
            self._left[kind] = dict.fromkeys(members)
            if not is_known(kind.__module__):
                found = [n for n in members if _SPECIAL.fullmatch(n) and isinstance(members[n], _CODE)]
        left = self._left[kind]
        for name in found:
            del left[name]
        named = self._names.among(left, is_known(kind.__module__), is_module)
        # Modules exist before they are called: their constructors have run.
        if kind in self._names.made and not is_module:
            named |= left.keys() & _MAKING
        for name in named:
            del left[name]
        return found + sorted(named)

    def new_attributes(self, number: int, held: dict[str, Any]) -> list[str]:
        """Attributes of a tensor that reached code may use, and that were not met before."""
        asked = sorted(self._names.among(held, False))
        found = [name for name in asked if (number, name) not in self.done]
        self.done.update((number, name) for name in found)
        return found


@functools.lru_cache(maxsize=16)
def _either(patterns: frozenset[str]) -> re.Pattern:
    return re.compile("|".join(sorted(patterns)))
