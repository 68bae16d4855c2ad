"""``CallForm``: the structure of the arguments that a graph was traced for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..core.errors import Error

#: The way to a leaf: positions, and keys of mappings.
Path = tuple[Any, ...]


class CallForm:
    """The arguments that a traced function takes: tensors, and constants of the trace.

    Lists and tuples are the same. Constants may be left out of a call; another value is an error.
    """

    def __init__(self, args: tuple, kwargs: dict[str, Any], is_tensor: Callable[[Any], bool]):
        self._leaves = dict(_leaves((args, kwargs)))
        #: The tensors, in the order of the graph's inputs.
        self.tensors = [path for path, leaf in self._leaves.items() if is_tensor(leaf)]

    def flatten(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """Returns the tensors of a call, in the order of the graph's inputs.

        Raises:
            disc.Error: An argument is missing, not known, or another constant (E0601).
        """
        given = dict(_leaves((args, kwargs)))
        if missing := [path for path in self.tensors if path not in given]:
            raise self._error(f"{_shown(missing[0])} is missing")
        for path, leaf in given.items():
            if path in self.tensors:
                continue
            if path not in self._leaves:
                raise self._error(f"the function was traced without {_shown(path)}")
            traced = self._leaves[path]
            if type(leaf) is not type(traced) or leaf != traced:
                raise self._error(f"{_shown(path)} is {leaf!r}, and {traced!r} is compiled in")
        return [given[path] for path in self.tensors]

    def _error(self, why: str) -> Error:
        names = ", ".join(_shown(path) for path in self.tensors)
        return Error(f"expected {len(self.tensors)} tensors ({names}): {why}", code="E0601")


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The leaves of mappings, lists and tuples, in the order of ``tf.nest``."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from _leaves(part, (*path, i))
    else:
        yield path, value


def _shown(path: Path) -> str:
    """A path as users write it: ``argument 0``, ``argument 0["x"]``, ``y``."""
    kind, first, *rest = path
    return (f"argument {first}" if kind == 0 else str(first)) + "".join(f"[{key!r}]" for key in rest)
