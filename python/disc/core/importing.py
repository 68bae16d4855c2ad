"""Writes models of other tools as packages: the compiled extension reads them, and no framework is
imported.

It is not a reader: formats, limits and names of inputs are crates/disc-import's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import environment, extension
from .dims import STATIC, Dim
from .errors import Error
from .options import Options, effective, refuse_planned


def export(
    model,
    path=None,
    *,
    dims: Mapping[Any, Any] | str | None = None,
    outputs: Mapping[str, str] | None = None,
    target: str | Sequence[str] | None = None,
    options: Options | None = None,
    ir: bool = True,
    prepared: bool = True,
) -> bytes | None:
    """Imports ``model``, the path of a file or its bytes, and writes it to ``path`` as a package;
    without a path, returns the bytes of the package.

    ``dims`` names sizes of inputs, by the file's name of an input or by its position, and fixes
    them: ``{"x": {0: "B", 1: disc.Dim("S", max=512), 2: 64}}``. ``outputs`` maps
    names to results of the file, for files that do not state them.
    """
    options = effective(options)
    refuse_planned(options)
    environment.check()
    rows, facts = _read(dims)
    cache = extension.cache_for(options)
    return extension.import_package(
        model,
        path,
        options,
        rows,
        facts,
        list((outputs or {}).items()),
        target_names(target),
        ir,
        prepared,
        cache,
    )


class Imported:
    """A model that the front end of a framework handed over, for ``disc.export``.

    ``source`` is the model's bytes in a format that disc reads; ``outputs`` and ``dims`` are as in
    ``export``.
    """

    def __init__(self, name: str, source: bytes, outputs: Mapping[str, str], dims=None):
        self.name = name
        self._source = source
        self._outputs = dict(outputs)
        self._dims = dims

    def export(self, path=None, *, target=None, options=None, ir=True, prepared=True) -> bytes | None:
        """Writes the model as a package; without a path, returns its bytes."""
        return export(
            self._source,
            path,
            dims=self._dims,
            outputs=self._outputs,
            target=target,
            options=options,
            ir=ir,
            prepared=prepared,
        )


def target_names(target: str | Sequence[str] | None) -> list[str]:
    """The targets as a list, which is empty for this machine's."""
    names = [target] if isinstance(target, str) else target or ()
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise Error(f"target is {target!r}, expected a name or a list of names", code="E0700")
    return list(names)


def _read(dims) -> tuple[list[tuple], list[str]]:
    """Rows of input, axis and a name or a number, and facts about the names as text."""
    if dims is None:
        return [], []
    if not isinstance(dims, Mapping):
        what = '"static" needs an example, which a file lacks' if dims == STATIC else f"got {dims!r}"
        raise Error(f"dims: expected a mapping from inputs to axes: {what}")
    rows: list[tuple] = []
    declared: dict[str, Dim] = {}
    for name, entry in dims.items():
        if isinstance(name, bool) or not isinstance(name, (str, int)) or (isinstance(name, int) and name < 0):
            raise Error(f"dims names the input {name!r}: expected its name or its position")
        for axis, what in _axes(name, entry):
            if isinstance(what, bool) or not isinstance(what, (int, str, Dim)):
                raise Error(
                    f"dims: axis {axis} of {name}: expected a str, a disc.Dim, an int or None, got {what!r}"
                )
            if isinstance(what, int):
                rows.append((name, axis, what))
                continue
            dim = Dim(what) if isinstance(what, str) else what
            known = declared.setdefault(dim.name, dim)
            if known != dim and Dim(dim.name) not in (known, dim):
                raise Error(f"dims declares {dim.name} twice: {known!r} and {dim!r}", dims=[dim.name])
            if known == Dim(dim.name):
                declared[dim.name] = dim
            rows.append((name, axis, dim.name))
    return rows, [fact for dim in declared.values() for fact in _facts(dim)]


def _axes(name, entry) -> Iterator[tuple[int, Any]]:
    if not isinstance(entry, (Mapping, list, tuple)):
        raise Error(
            f"dims: input {name}: expected a mapping from axes, got {entry!r}",
            help=f'for example dims={{"{name}": {{0: "B"}}}}',
        )
    for axis, what in entry.items() if isinstance(entry, Mapping) else enumerate(entry):
        if isinstance(axis, bool) or not isinstance(axis, int) or axis < 0:
            raise Error(f"dims: input {name}: {axis!r} is no axis, expected 0, 1, ...")
        if what is not None:
            yield axis, what


def _facts(dim: Dim) -> Iterator[str]:
    if dim.min > 0:
        yield f"{dim.name} >= {dim.min}"
    if dim.max is not None:
        yield f"{dim.name} <= {dim.max}"
    if dim.multiple_of > 1:
        yield f"{dim.name} % {dim.multiple_of} == 0"
    if dim.likely:
        yield f"{dim.name} likely [{', '.join(str(size) for size in dim.likely)}]"
