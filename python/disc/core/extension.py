"""Calls the compiled extension; no other file of the package imports it to compile, run or cache.

The extension gives ``Builder`` (ops, inputs, weights, facts, outputs), ``compile`` and executables;
no framework.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeVar

from . import environment
from .errors import Error
from .options import Options

_Function = TypeVar("_Function")


def _extension():
    try:
        from .. import _disc
    except ImportError as error:
        raise Error(
            f"the compiled extension of disc cannot be loaded: {error}",
            code="E0802",
            help="install the wheel, or run `make develop` in a checkout",
        ) from error
    if not hasattr(_disc, "Builder"):
        raise Error(
            "the compiled extension of disc has no compiler", code="E0802", help="run `make develop` again"
        )
    return _disc


def builder():
    """A new, empty function to build."""
    return _extension().Builder()


def dim(name: str):
    """A size by its name."""
    return _extension().Dim(name)


def fact(text: str):
    """A condition on sizes, as the compiler reads it."""
    return _extension().Fact(text)


def _find_tools(device: str | None) -> None:
    """Says where packages are that bring tools for a GPU along, such as those of CUDA."""
    if device is not None and device.startswith("cuda"):
        folders = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        _extension().set_package_folders(folders)


def compile_function(
    source,
    options: Options,
    threads: int | None,
    cache: str | None = None,
    first: Sequence[Sequence[int]] | None = None,
):
    """Compiles what a builder holds, or a module as text; ``load`` makes the result callable.

    Without ``threads`` the runtime decides. ``cache`` is the folder of the cache on disk, if it may
    be asked. ``first`` are the sizes of the inputs of a call that is made at once: what that does
    not run may be compiled while later calls are served.
    """
    chosen = {**options.for_compiler(), "threads": threads}
    _find_tools(options.device)
    return _extension().compile(
        source, chosen, cache=cache, cache_weights=keeps_weights(options), first=first
    )


def export_package(
    programs: Sequence[tuple],
    path,
    options: Options,
    threads: int | None,
    targets: Sequence[str],
    ir: bool,
    prepared: bool,
    cache: str | None,
) -> bytes | None:
    """Compiles programs and writes them as one package; without a path, returns its bytes.

    A program is ``(entry, source, weights, outputs, structure)``: ``source`` a builder or text,
    ``outputs`` rows of name, ``"output"`` or ``"input"``, and index, ``structure`` JSON or None.
    """
    chosen = {**options.for_compiler(), "threads": threads}
    return _extension().export_package(
        list(programs), path, chosen, targets=list(targets), ir=ir, prepared=prepared, cache=cache
    )


def import_package(
    model,
    path,
    options: Options,
    dims: Sequence[tuple],
    facts: Sequence[str],
    outputs: Sequence[tuple[str, str]],
    targets: Sequence[str],
    ir: bool,
    prepared: bool,
    cache: str | None,
) -> bytes | None:
    """Imports a model from a file, or from bytes, and writes it as a package; without a path,
    returns its bytes.

    ``dims`` are rows of input, axis and a name or a number, ``facts`` texts about the names.
    """
    return _extension().import_package(
        model,
        path,
        {**options.for_compiler(), "threads": options.threads},
        dims=list(dims),
        facts=list(facts),
        outputs=list(outputs),
        targets=list(targets),
        ir=ir,
        prepared=prepared,
        cache=cache,
    )


def write_capture(path, source, inputs, weights, outputs, error: str | None, options: Options, threads):
    """Writes one call of a program to a file; ``outputs`` are none if it failed."""
    chosen = options.for_compiler()
    _extension().write_capture(
        path,
        source,
        list(inputs),
        list(weights),
        outputs=list(outputs),
        error=error,
        options=chosen,
        target=chosen.get("target"),
        threads=threads,
    )


def open_package(source, verify: str, require_signature, device: str | None):
    """Opens the package in a file, or in bytes, to run on a device."""
    _find_tools(device)
    return _extension().Package(source, verify=verify, require_signature=require_signature, device=device)


def partition(rows: Sequence[tuple], fewest: int | None) -> list[tuple[bool, list[int]]]:
    """Partitions a graph in program order into steps, each a cluster or a node of the framework.

    A row is ``(compiled, cheap, result, operations, bytes, reads, follows)``.
    """
    return _extension().partition(rows, fewest)


def watch(arguments: tuple, positions: Sequence[int]):
    """Notes the weights among the arguments of a call: ``are_unchanged(arguments)`` says whether a
    later call has the same objects, versions, memory and, of a few elements, contents.
    """
    return _extension().Watch(arguments, positions)


def module_watch(**rows):
    """Notes dicts, lists, variables, classes, modes and tensors that decide about a module."""
    return _extension().ModuleWatch(**rows)


def watches_torch_modes() -> bool:
    """Returns true if a watch of a module asks torch itself for the type of tensors that are made
    without one, and for modes that see functions and ops.
    """
    return _extension().watches_torch_modes()


def watches_torch_calls() -> bool:
    """Returns true if a watch of a module asks torch itself for traces and autocast."""
    return _extension().watches_torch_calls()


def weight_watch(held: Sequence[tuple], parts: Sequence[tuple]):
    """Notes tensors by table and key, and tensors that those are made of, each with a flag whether
    elements are compared too; ``holds()`` says whether they are as they were.
    """
    return _extension().WeightWatch(held, parts)


def warm_calls(attributes: dict, hooks: dict, forward: dict, recordings: list):
    """Keeps the forms of call that a module was called with of late: ``attributes`` are those of
    the module, ``hooks`` and ``forward`` globals of torch's modules of hooks and of forward-mode
    differentiation, ``recordings`` the open ones.
    """
    return _extension().WarmCalls(attributes, hooks, forward, recordings)


def warm_call(executable, **what):
    """A form of call that an executable has served; None for an executable that is not native."""
    native = _extension()
    is_native = isinstance(executable, native.Executable)
    return native.WarmCall(executable=executable, **what) if is_native else None


def warm_graph(leaves: list | None, finish, recordings: list):
    """Keeps the weights that calls of a graph pass, each set with the code that holds it:
    ``leaves`` are the results, which else ``finish`` makes.
    """
    return _extension().WarmGraph(leaves, finish, recordings)


def graph_call(graph, function):
    """A function that calls a graph; ``function`` serves what the graph does not."""
    return _extension().GraphCall(graph, function)


def call_method(function: _Function) -> _Function:
    """The method ``__call__`` of modules that keep their warm calls in ``_warm``: ``function``
    serves what these do not.
    """
    return _extension().call_method(function)


def devices() -> list[str]:
    """Names the devices that compiled modules can run on here.

    They are the values of ``disc.Options(device=...)``.

    >>> devices()[0]
    'cpu'
    """
    return _extension().devices()


def check_runs(options: Options) -> None:
    """Raises for options whose code could not run here: a target of another CPU or device, or a
    device that is not there.
    """
    _find_tools(options.device)
    _extension().check_runs({"target": options.target, "device": options.device})


def cache_directory() -> str | None:
    """The folder of the cache on disk; None without one, or with DISC_CACHE=0."""
    found = _extension().cache_directory()
    return None if found is None else str(found)


def cache_for(options: Options) -> str | None:
    """The folder of the cache on disk; None where the options leave it out."""
    return cache_directory() if options.cache else None


def keeps_weights(options: Options) -> bool:
    """Returns true if a cache on disk keeps prepared weights too."""
    return options.cache is True and environment.switch("DISC_CACHE_WEIGHTS")


def may_be_mapped(directory: str, size: int) -> bool:
    """Returns true if the cache holds weights of about ``size`` bytes in prepared
    form, these or others.
    """
    return _extension().cache_may_hold_weights(directory, size)


def cache_get(directory: str, level: str, key: bytes) -> bytes | None:
    """Reads what an earlier process stored, at the level "capture" or "bytecode"."""
    return _extension().cache_get(directory, level, key)


def cache_is_shared(directory: str) -> bool:
    """Returns true if the folder is not used because others may write to it."""
    return _extension().cache_is_shared(directory)


def cache_put(directory: str, level: str, key: bytes, payload: bytes) -> None:
    """Stores an entry, at the level "capture" or "bytecode"."""
    _extension().cache_put(directory, level, key, payload)


def cache_clear(directory: str) -> int:
    """Removes all entries; how many there were."""
    return _extension().cache_clear(directory)


def cache_counts() -> dict[str, dict[str, int]]:
    """Counts hits, misses and writes of this process, for each level."""
    return _extension().cache_counts()


def memory_ahead(size: int):
    """A context in which the system is asked, beside what else is done,
    for ``size`` bytes that prepared weights will need.
    """
    return _extension().MemoryAhead(size)


def profiler(all_threads: bool):
    """Records the calls of compiled code from now on: those of this thread, or of all."""
    return _extension().Profiler(all_threads=all_threads)


def load(artifact, weights: Sequence[tuple[str, Any]], outputs: str, name: str | None = None):
    """Prepares the weights for the compiled code, and makes it callable.

    ``weights`` are named tensors. They are used in place, without a copy: a change in place may be
    seen. ``outputs`` names the framework whose tensors a call returns, ``name`` the model in
    profiles.
    """
    return artifact.load(list(weights), outputs=outputs, name=name)
