"""Carries compiled programs into a copy of a compiled module: by ``copy``, ``deepcopy`` and
``pickle``, into another process too.

A program is taken up when the copy is first called in its form, without capturing or compiling.

Invariants:

- a program is taken up by a module whose code and structure are those of the module that it was
  compiled for (``cache.identity``); any other module is compiled when it is called;
- whatever is wrong with what came is no error: the form is compiled.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core import carried_code, extension
from ...core.options import Options
from ..cache.identity import identity
from ..calls.call import Call
from ..capture.captured_program import CapturedProgram
from ..devices.device import placed, refuse_absent
from ..graph.threads import threads_of
from .entry import CompiledEntry
from .ladder import Request

if TYPE_CHECKING:
    from .dispatcher import Dispatcher

_LOG = logging.getLogger("disc.compile")


@dataclass
class CarriedProgram:
    """A program without weights, with its code: an artifact of this process, or files."""

    captured: CapturedProgram
    artifact: Any
    files: dict[str, bytes] | None = None

    def pack(self, options: Options) -> CarriedProgram:
        """This program for another process."""
        if self.files is None:
            directory = extension.cache_for(options)
            options = placed(options, self.captured.device)
            self.files = carried_code.pack(self.captured.source, options, threads_of(options), directory)
        return CarriedProgram(self.captured, None, self.files)

    def load(self, options: Options) -> tuple[Any, bool]:
        """The artifact, and whether it was there."""
        if self.artifact is not None:
            return self.artifact, True
        made = carried_code.unpack(self.captured.source, options, threads_of(options), self.files or {})
        return made, made.report()["code_cache"] == "hit"


#: A form of call, and the programs that serve it.
_Forms = list[tuple[tuple, list[CarriedProgram]]]


class Carried:
    """The programs of a compiled module, by form of call."""

    def __init__(self, key: bytes, forms: _Forms):
        #: Tells of code and structure of the module.
        self.key = key
        self.forms = forms

    def take(self, dispatcher: Dispatcher, key: tuple) -> list[CompiledEntry]:
        """Takes up the programs for a form of call; none if there are none, or they do not fit."""
        found = next((programs for form, programs in self.forms if form == key), None)
        if found is None:
            return []
        try:
            if identity(dispatcher.original()) != self.key:
                return []
            return [_entry(dispatcher, program) for program in found]
        except Exception as error:
            _LOG.info("a copy of %s is compiled: %s", dispatcher.name, error)
            return []


def carried(dispatcher: Dispatcher) -> Carried | None:
    """The programs of a module that a copy may take up; None if there are none."""
    forms: _Forms = []
    for form in dispatcher.forms.held:
        if form.numbers or form.held is not None or not form.is_for(dispatcher.original):
            # A copy begins with the module as it is now, and with constants.
            continue
        programs = []
        for entry in form.entries:
            if not isinstance(entry, CompiledEntry) or (program := _program(entry)) is None:
                break
            programs.append(program)
        if programs:
            forms.append((form.key, programs))
    waiting = dispatcher.carried
    if waiting is not None:
        forms += [row for row in waiting.forms if dispatcher.forms.find(row[0], dispatcher.original) is None]
    if not forms:
        return None
    try:
        key = identity(dispatcher.original())
    except Exception as error:
        _LOG.info("copies of %s are compiled: %s", dispatcher.name, error)
        return None
    return Carried(key, forms)


def _program(entry: CompiledEntry) -> CarriedProgram | None:
    """The program of an entry, made once; None for one that let its weights go."""
    if entry.carried is None and entry.captured is not None:
        entry.carried = CarriedProgram(entry.captured.stored(), entry.artifact)
    return entry.carried


def pack(found: Carried | None, options: Options) -> bytes | None:
    """The programs as bytes, for a pickle; None if they have no such form."""
    if found is None:
        return None
    try:
        forms = [(key, [program.pack(options) for program in programs]) for key, programs in found.forms]
        payload = pickle.dumps(Carried(found.key, forms), protocol=5)
    except Exception as error:
        _LOG.info("a pickled module is compiled again: %s", error)
        return None
    return hashlib.sha256(payload).digest() + payload


def unpack(packed: bytes | None) -> Carried | None:
    """Reads what ``pack`` made; None if it is damaged, or of another version."""
    if packed is None or hashlib.sha256(packed[32:]).digest() != packed[:32]:
        return None
    try:
        with warnings.catch_warnings():
            # Classes of torch warn about themselves.
            warnings.simplefilter("ignore")
            found = pickle.loads(packed[32:])
        return found if isinstance(found, Carried) else None
    except Exception as error:
        _LOG.info("an unpickled module is compiled: %s", error)
        return None


def _entry(dispatcher: Dispatcher, program: CarriedProgram) -> CompiledEntry:
    module = dispatcher.original()
    captured = CapturedProgram.from_cache(program.captured, module)
    if captured is None:
        raise LookupError("a weight of the module is gone")
    refuse_absent(captured.device)
    options = placed(dispatcher.options, captured.device)
    artifact, is_there = program.load(options)
    start = time.perf_counter()
    executable = captured.loaded(artifact, dispatcher.name)
    stages = {**captured.stages, "pack": (time.perf_counter() - start) * 1e3}
    report = {"stages": stages, "cache": "carried", "captured_by": captured.by}
    request = Request(dispatcher.original, (), {}, dispatcher.dims, options, False)
    entry = CompiledEntry(request, Call(module, captured), captured, executable, report, artifact)
    entry.is_carried = is_there
    return entry
