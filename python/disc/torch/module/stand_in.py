"""Makes the class of a module that stands in for another one.

``type(fast)`` has what the class of the original has, since libraries look methods up there;
``isinstance`` and ``super()`` take a stand-in for an instance of that class, by its ``__class__``.
Methods that torch's base class has too, and special methods, which Python looks up only on the
class, are put into the class.
"""

from __future__ import annotations

import weakref

import torch


class StandInType(type):
    """The class of classes of stand-ins: it asks the class of the original too."""

    def __getattr__(cls, name: str):
        kind = cls.__dict__.get("_stands_for")
        if kind is None:
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return getattr(kind, name)


def class_for(kind: type, base: type) -> type:
    """A subclass of ``base`` whose instances stand in for instances of ``kind``: the same one for
    all of them, as long as there are some and ``kind`` has what it had.
    """
    held: dict = {"_stands_for": kind, "__module__": base.__module__, "__doc__": kind.__doc__}
    for owner in reversed(kind.__mro__):
        if owner in torch.nn.Module.__mro__:
            continue
        for name, value in vars(owner).items():
            if _is_looked_up(name, base):
                held[name] = _forwarded(name) if _is_special(name) else value
    held["_taken"] = frozenset(held)
    made = _classes.get(id(kind))
    if made is None or not _has(made, held):
        _classes[id(kind)] = made = StandInType(base.__name__, (base,), held)
    return made


#: The classes that have instances. Each holds what it stands for, whose identity is its key.
_classes: weakref.WeakValueDictionary[int, type] = weakref.WeakValueDictionary()


def _has(made: type, held: dict) -> bool:
    """Returns true if a class has these attributes."""
    there = vars(made)
    plain = (name for name in held if not _is_special(name) and name != "_taken")
    return there["_taken"] == held["_taken"] and all(there[name] is held[name] for name in plain)


def _forwarded(name: str):
    """A special method that is the original's."""

    def forward(self, *args, **kwargs):
        return getattr(self.original, name)(*args, **kwargs)

    return forward


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_looked_up(name: str, base: type) -> bool:
    """Returns true for an attribute that an instance does not ask the original for."""
    if any(name in vars(owner) for owner in base.__mro__ if owner not in torch.nn.Module.__mro__):
        return False
    return name not in _OWN and (_is_special(name) or hasattr(torch.nn.Module, name))


#: Of the class itself, whatever it stands for.
_OWN = frozenset(vars(type("_", (), {}))) | {
    "__init__", "__new__", "__init_subclass__", "__class_getitem__", "__annotations__", "__constants__", "__slots__",
    "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__hash__", "__eq__", "__abstractmethods__",
    "__orig_bases__", "__parameters__", "__qualname__", "__firstlineno__", "__static_attributes__", "__annotate__",
    "__dataclass_fields__", "__dataclass_params__", "forward", "dump_patches", "call_super_init",
}  # fmt: skip
