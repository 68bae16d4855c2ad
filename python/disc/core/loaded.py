"""``Package``: a compiled model in a file, for programs that have NumPy and no framework."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import extension, profiling, structure
from .errors import DimError, Error, PackageError


@dataclass(frozen=True)
class Port:
    """An input or an output: name, dtype as text (``"f32"``), dims (ints or text).

    >>> name, dtype, dims = Port("x", "f32", ("B", 768))
    >>> dims
    ('B', 768)
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.name, self.dtype, self.dims))


class Entry:
    """A function of a package. Called with tensors of NumPy, torch, or anything with
    ``__dlpack__``, in the order of ``inputs`` or by name; tensors are read in place.

    A written input (``written``) is changed in the caller's array. Results are NumPy arrays, or
    tensors of torch if an input is one: a single output comes bare, several as a tuple; a package
    of ``disc.save`` gives them the structure that the model returns.
    """

    def __init__(self, package: Package, description: dict[str, Any], device: str | None):
        self.name: str = description["name"]
        self.inputs = [_port(row) for row in description["inputs"]]
        self.outputs = [_port(row) for row in description["outputs"]]
        #: Names of the inputs that a call writes to.
        self.written = [row[0] for row in description["inputs"] if row[3]]
        #: Facts about the dims, as text.
        self.facts: list[str] = description["facts"]
        self._sources = [(row[3], row[4]) for row in description["outputs"]]
        self._structure = _checked(description)
        self._device = device
        self._package = package
        self._executable = None

    def __call__(self, *args, **kwargs):
        """Runs the entry; raises disc.Error for inputs that do not fit."""
        inputs = self._inputs(args, kwargs)
        made = self.load().run(inputs)
        self._note_writes(inputs)
        outputs = [made[i] if kind == "output" else _copied(inputs[i]) for kind, i in self._sources]
        if self._structure is not None:
            return structure.build(self._structure["result"], outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _note_writes(self, inputs: list[Any]) -> None:
        """Raises the versions of the tensors of torch that a call wrote to, by which autograd knows
        that they changed.
        """
        torch = sys.modules.get("torch")
        if torch is None or not self.written:
            return
        for port, value in zip(self.inputs, inputs, strict=True):
            if port.name in self.written and isinstance(value, torch.Tensor) and not value.is_inference():
                torch.autograd.graph.increment_version(value)

    def load(self):
        """Loads code and weights, which the first call does otherwise."""
        if self._executable is None:
            name = self._package._called(self.name)
            self._executable = self._package._native.executable(self.name, self._device, name=name)
        return self._executable

    def _inputs(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        if self._structure is not None:
            return self._nested(args, kwargs)
        names = [port.name for port in self.inputs]
        if len(args) > len(names):
            raise self._error(f"{len(args)} inputs came")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise self._error(f"there is no input {name}")
            if name in given:
                raise self._error(f"{name} is given by position and by name")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise self._error(f"{', '.join(missing)} is missing")
        return [given[name] for name in names]

    def _nested(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The inputs of a call with nested arguments."""
        form = self._structure
        assert form is not None
        names = form["parameters"]
        # What ``*args`` takes has no name but its place.
        given = {names[i] if i < len(names) else str(i): value for i, value in enumerate(args)}
        if given.keys() & kwargs.keys():
            raise self._error("an argument is given by position and by name")
        given |= kwargs
        leaves: dict[int, Any] = {}
        for name, description in form["arguments"].items():
            if name not in given:
                if self._is_default(name, description):
                    continue
                raise self._left_out(name, description)
            structure.flatten(description, given.pop(name), leaves, name)
        for name, value in given.items():
            if not structure.is_same(value, self._default_of(name)):
                raise self._not_compiled(name, value)
        return [leaves[i] for i in range(len(leaves))]

    def _is_default(self, name: str, description: dict[str, Any]) -> bool:
        """Returns true if an argument that is left out has the value that is compiled in."""
        is_constant = description["kind"] == "constant"
        return is_constant and structure.is_same(structure.constant(description), self._default_of(name))

    def _left_out(self, name: str, description: dict[str, Any]) -> Error:
        """The error about an argument that is missing, or whose default was not compiled."""
        if description["kind"] != "constant":
            return self._error(f"{name} is missing")
        wanted, default = structure.constant(description), self._default_of(name)
        was = "is missing" if default is ... else f"is {default!r} by default"
        return self._error(f"{name} {was}, and {wanted!r} is compiled in", structure.ANOTHER_CONSTANT)

    def _not_compiled(self, name: str, value: Any) -> Error:
        """The error about an argument that the saved call did not have."""
        default = self._default_of(name)
        if default is ...:
            return self._error(f"the model was compiled without {name}")
        given = structure.short(value)
        return self._error(
            f"{name} is {given}, and its default {default!r} is compiled in", structure.ANOTHER_CONSTANT
        )

    def _default_of(self, name: str) -> Any:
        """The default of a parameter; ``...`` if it has none, or one that JSON has not."""
        found = self._structure["defaults"].get(name)
        return ... if found is None else structure.constant(found)

    def fits(self, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Returns true if a call has the structure of this saved form."""
        if self._structure is None:
            return False
        try:
            inputs = self._inputs(args, kwargs)
        except Error:
            return False
        return all(_is_of(value, port) for value, port in zip(inputs, self.inputs, strict=True))

    def objection(self, args: tuple, kwargs: dict[str, Any]) -> Error | None:
        """The error about the structure of a call; None if it has that of this form."""
        try:
            self._inputs(args, kwargs)
        except Error as error:
            return error
        return None

    def __copy__(self) -> Entry:
        return self

    def __deepcopy__(self, memo) -> Entry:
        return self

    def __reduce__(self):
        return operator.getitem, (self._package, self.name)

    def _error(self, came: str, help: str | None = None) -> Error:
        names = ", ".join(port.name for port in self.inputs)
        return Error(f"`{self.name}` expects {names}: {came}", code="E0601", op=self.name, help=help)

    def __repr__(self) -> str:
        def listed(ports: Sequence[Port]) -> str:
            return ", ".join(f"{p.name}: {p.dtype}[{', '.join(map(str, p.dims))}]" for p in ports)

        return f"<disc entry {self.name}({listed(self.inputs)}) -> ({listed(self.outputs)})>"


class Package:
    """A compiled model that ``disc.load`` opened.

    ``package(...)`` runs its only entry, ``main``, or the one that ``entry`` named;
    ``package["decode"](...)`` runs another. Any number of threads may call it at once.
    """

    def __init__(self, native, device: str | None, entry: str | None, origin: _Origin | None = None):
        self._native = native
        self._origin = origin
        self._device = device
        #: The entries by name.
        self.entries: dict[str, Entry] = {row["name"]: Entry(self, row, device) for row in native.entries()}
        #: The target whose code was picked, such as ``x86-64-v3``.
        self.target: str = native.target
        self._default = self[entry] if entry is not None else None

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries:
            have = ", ".join(f"`{known}`" for known in self.entries)
            raise PackageError(f"the package has no entry `{name}`: it has {have}", code="E0904", op=name)
        return self.entries[name]

    def __call__(self, *args, **kwargs):
        """Runs the default entry; of a saved model with several forms, the one that fits."""
        if self._default is not None:
            return self._default(*args, **kwargs)
        if len(self.entries) == 1:
            return next(iter(self.entries.values()))(*args, **kwargs)
        fitting = [entry for entry in self.entries.values() if entry.fits(args, kwargs)]
        for entry in fitting[:-1]:
            try:
                return entry(*args, **kwargs)
            except DimError:
                continue
        return (fitting[-1] if fitting else self._nearest(args, kwargs))(*args, **kwargs)

    def _nearest(self, args: tuple, kwargs: dict[str, Any]) -> Entry:
        """The entry to say why a call has none of the saved forms: one whose structure it has.

        Raises what all of them object to, if there is none.
        """
        objections = [(entry, entry.objection(args, kwargs)) for entry in self.entries.values()]
        for entry, objection in objections:
            if objection is None:
                return entry
        said = "; ".join(error.message for _, error in objections if error is not None)
        helps = (error.help for _, error in objections if error is not None and error.help)
        raise Error(f"the call has none of the saved forms: {said}", code="E0601", help=next(helps, None))

    def _called(self, entry: str) -> str:
        """The name of an entry in profiles: that of the file, and its own if it has one."""
        source = self._origin.source if self._origin is not None else None
        stem = (
            os.path.splitext(os.path.basename(source))[0]
            if isinstance(source, (str, os.PathLike))
            else "package"
        )
        return stem if entry == "main" else f"{stem}.{entry}"

    def __copy__(self) -> Package:
        """Another object over the same code, weights and sessions."""
        default = self._default.name if self._default is not None else None
        return Package(self._native, self._device, default, self._origin)

    def __deepcopy__(self, memo) -> Package:
        return self.__copy__()

    def __reduce__(self):
        """A pickle has the path of the file, or the bytes that it was opened from."""
        if self._origin is None:
            raise Error("a package without a file cannot be pickled", code="E0700")
        default = self._default.name if self._default is not None else None
        return _reopened, (self._origin, _digest(self._native), self._device, default)

    def __repr__(self) -> str:
        return f"<disc package for {self.target}: {', '.join(self.entries)}>"


def load(
    path: str | os.PathLike[str] | bytes,
    *,
    device: str | None = None,
    entry: str | None = None,
    verify: bool | str = True,
    require_signature: str | os.PathLike[str] | None = None,
) -> Package:
    """Opens a package; needs only NumPy.

    All but the weights is verified each time.

    Args:
        path: The file, or the bytes of a package.
        device: The device to run on, of ``disc.devices()``; ``"cuda"`` is ``"cuda:0"``. Arrays stay
            in memory of the host: each call copies them to a GPU, and its results back.
        entry: The entry that ``package(...)`` calls.
        verify: True reads the weights when a file is seen first or has changed, ``"all"`` each
            time, False never.
        require_signature: The path of a public ed25519 key in PEM: a package that its owner did not
            sign is refused.

    Returns:
        The package, open.

    Raises:
        disc.PackageError: The file is damaged, too new or not signed, or has no code for this
            machine or device; the message names the part, or what there is code for.
        disc.Error: There is no such device.
    """
    words = {True: "first seen", False: "off", "all": "all"}
    if verify not in words:
        raise Error(f"verify is {verify!r}, expected True, False or 'all'", code="E0700")
    native = extension.open_package(path, words[verify], require_signature, device)
    key = None if require_signature is None else os.path.abspath(require_signature)
    source = path if isinstance(path, bytes) else os.path.abspath(path)
    return Package(native, device, entry, _Origin(source, verify, key))


@dataclass(frozen=True)
class _Origin:
    """The source of a package, and how it was opened."""

    source: str | bytes
    verify: bool | str
    require_signature: str | None


def _digest(native) -> str:
    """Tells packages apart: the manifest has the hash of every part."""
    return hashlib.sha256(native.manifest().encode()).hexdigest()


def _reopened(origin: _Origin, digest: str, device: str | None, entry: str | None) -> Package:
    """The package that was pickled; raises disc.PackageError if its file is another one by now."""
    package = load(
        origin.source,
        device=device,
        entry=entry,
        verify=origin.verify,
        require_signature=origin.require_signature,
    )
    if _digest(package._native) != digest:
        raise PackageError(
            f"{origin.source!r} is not the package any more that was pickled",
            code="E0906",
            help="open the new one with disc.load",
        )
    return package


def _port(row: Sequence[Any]) -> Port:
    dims = tuple(int(dim) if dim.isdigit() else dim for dim in row[2])
    return Port(row[0], row[1], dims)


#: Names of element types in NumPy and torch, where they are not those of disc with another letter.
_TYPES = {"float": "f", "bfloat": "bf", "uint": "u", "int": "i"}


def _is_of(value: Any, port: Port) -> bool:
    """Returns true if a tensor has the rank and the element type of an input."""
    if len(getattr(value, "shape", ())) != len(port.dims):
        return False
    name = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if name == "bool":
        return port.dtype == "i1"
    letters = name.rstrip("0123456789")
    # Numbers of Python have no type of their own.
    return not name or _TYPES.get(letters, letters) + name[len(letters) :] == port.dtype


def _checked(description: dict[str, Any]) -> dict[str, Any] | None:
    """The structure of a saved entry; raises disc.PackageError for one that is none."""
    if not description["structure"]:
        return None
    form = json.loads(description["structure"])
    parts = ("arguments", "defaults")
    is_right = isinstance(form, dict) and all(isinstance(form.get(part), dict) for part in parts)
    names = form.get("parameters") if is_right else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise PackageError("entry `manifest.json`: the structure of a saved model is damaged")
    for argument in form["arguments"].values():
        structure.check(argument, len(description["inputs"]))
    for default in form["defaults"].values():
        structure.check(default, 0)
    structure.check(form.get("result"), len(description["outputs"]))
    return form


def _copied(value: Any) -> Any:
    """A result that is an input: never the caller's own array."""
    copy = getattr(value, "clone", None) or getattr(value, "copy", None)
    return copy() if copy is not None else value


def _executables(found: Any) -> list[Any] | None:
    """The loaded code of a package, or of one entry."""
    entries = found.entries.values() if isinstance(found, Package) else [found]
    if not all(isinstance(entry, Entry) for entry in entries):
        return None
    return [entry._executable for entry in entries if entry._executable is not None]


profiling.EXECUTABLES.append(_executables)
