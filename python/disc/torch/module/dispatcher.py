"""Serves the calls of a compiled module.

A call takes the entry that served the last one, as long as that serves it; else its form is looked
up, and compiled if it is new. A call that breaks what a program was compiled for is torch's, and
may have a variant compiled.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

import torch

from ...core import capturing
from ...core.errors import DimError, Error
from ...core.options import Options
from ...core.progress import Progress
from ..pytree.parameters import Parameters
from . import ladder
from .carried import Carried
from .entry import CompiledEntry, EagerEntry, Entry, GraphEntry, Refused, refreshed
from .forms import Form, Forms
from .kept_attributes import KeptAttributes, State
from .variants import Variants
from .verify import Verification

_COMPILE = logging.getLogger("disc.compile")
_RUNTIME = logging.getLogger("disc.runtime")
#: After so many forms of call a new one is torch's.
MOST_FORMS = 32


class Dispatcher:
    """The forms of call of one module and what serves them."""

    def __init__(self, original: Callable[[], torch.nn.Module], dims, options: Options):
        module = original()
        self.original = original
        self.name = type(module).__name__
        self.training = module.training
        self.dims = dims
        self.options = options
        self.forms = Forms(Parameters(module))
        self.variants = Variants()
        self.kept = KeptAttributes()
        self.verification = Verification(options.verify) if options.verify else None
        #: The programs of the module that this one is a copy of, until they are called.
        self.carried: Carried | None = None
        #: Served the last call, and is asked first.
        self.last: Entry | None = None
        #: Serves the forms beyond the most, once there are some.
        self._overflow: EagerEntry | None = None
        self._lock = threading.RLock()

    # Calls.

    def serve(self, args: tuple, kwargs: dict):
        """The result of a call."""
        if capturing.active:
            with capturing.call_of(self.original()):
                return self._serve(args, kwargs)
        return self._serve(args, kwargs)

    def _serve(self, args: tuple, kwargs: dict):
        last = self.last
        if (
            last is not None
            and not torch._C._is_any_autocast_enabled()
            and torch._C._get_tracing_state() is None
            and not torch._C._len_torch_dispatch_stack()
        ):
            try:
                return last.run(args, kwargs)
            except Refused:
                pass
        if _is_traced(args, kwargs):
            return self.original()(*args, **kwargs)
        if self.verification is not None and self.verification.is_open():
            return self.verification.run(self, args, kwargs)
        return self.run_form(args, kwargs)

    def run_form(self, args: tuple, kwargs: dict):
        """Serves a call by the form that it has."""
        form = self._form(args, kwargs)
        refused: Refused | None = None
        for entry in list(form.entries):
            try:
                result = entry.run(args, kwargs)
            except Refused as error:
                refused = refused or error
                continue
            self._remember(entry, form)
            if not isinstance(entry, GraphEntry):
                self._note_changes()
            return result
        assert refused is not None, "a form has an entry"
        return self._refused(form, refused.error, args, kwargs)

    def _remember(self, entry: Entry, form: Form) -> None:
        """Asks an entry first that refuses calls of other forms."""
        is_verified = self.verification is not None and self.verification.is_open()
        is_first = isinstance(entry, GraphEntry) and not form.autocast and not is_verified
        self.last = entry if is_first and not self.kept.is_watching else None

    def _note_changes(self) -> None:
        """Looks for attributes that a call by torch or dynamo has changed."""
        with self._lock:
            if self.kept.note(self.original()) and self.kept.is_watching:
                self.last = None

    def _refused(self, form: Form, error: Error, args: tuple, kwargs: dict):
        """Serves a call that breaks a fact of what was compiled: by torch."""
        first = form.entries[0]
        is_fact = isinstance(error, DimError) and isinstance(first, GraphEntry)
        if self.options.fallback == "error" or (is_fact and first.call.is_stated(error)):
            raise error
        level = logging.INFO if form.refusals.note(error) else logging.DEBUG
        _RUNTIME.log(level, "torch runs a call of %s: %s", self.name, error)
        if is_fact:
            self.variants.offer(self, form, error, args, kwargs)
        result = self.original()(*args, **kwargs)
        self._note_changes()
        return result

    # Forms.

    def prepare(self, args: tuple, kwargs: dict) -> None:
        """Compiles the form of this call, if it is not there."""
        key = self.forms.key(self.training, args, kwargs)
        with self._lock:
            if self.forms.find(key, self.state()) is None and self._take_up(key) is None:
                self._compile(key, args, kwargs, is_example=True)

    def _form(self, args: tuple, kwargs: dict) -> Form:
        key = self.forms.key(self.training, args, kwargs)
        found = self.forms.find(key, self.state())
        if found is not None:
            return found
        with self._lock:
            found = self.forms.find(key, self.state())
            return found or self._take_up(key) or self._compile(key, args, kwargs)

    def state(self) -> State:
        """The attributes of the module that calls have changed."""
        return self.kept.state(self.original()) if self.kept.is_watching else frozenset()

    def _hold(self, form: Form) -> Form:
        self.forms.held.append(form)
        if any(isinstance(entry, GraphEntry) for entry in form.entries):
            self.kept.begin(self.original())
        return form

    def is_compiled(self, args: tuple, kwargs: dict) -> bool:
        """Returns true if compiled code serves a call, and not torch alone."""
        for entry in self._form(args, kwargs).entries:
            if isinstance(entry, GraphEntry):
                with contextlib.suppress(Refused):
                    entry.explain(entry.tensors(args, kwargs))
                    return True
            elif entry.captured_by != "none":
                return True
        return False

    def _take_up(self, key: tuple) -> Form | None:
        """The form as the module had it that this one is a copy of."""
        if self.carried is None or self.state() or not (entries := self.carried.take(self, key)):
            return None
        return self._hold(Form(key, [*entries]))

    def _compile(self, key: tuple, args: tuple, kwargs: dict, is_example: bool = False) -> Form:
        if self.options.fallback == "error" and self.forms.held and not is_example:
            self._object(args, kwargs)
        if len(self.forms.held) >= MOST_FORMS:
            if self._overflow is None:
                error = Error(f"{MOST_FORMS} forms of call were compiled, and no more are", code="E0601")
                self._overflow = EagerEntry(self.original, error)
            return Form(key, [self._overflow], self.state())
        if self.forms.held:
            _COMPILE.info("%s is compiled for another form of call", self.name)
        state = self.state()
        entry = self.build(args, kwargs, self.dims, is_example)
        if changed := getattr(entry.cause, "changed", ()):
            self.kept.name(changed)
            # Once it has changed them, the form may well be compiled.
            self.kept.begin(self.original())
        return self._hold(Form(key, [entry], state))

    def build(
        self, args: tuple, kwargs: dict, dims, is_example: bool = False, is_behind: bool = False
    ) -> Entry:
        """Compiles the form of a call; ``is_behind``: while calls of the module go on."""
        asked = ladder.Request(self.original, args, kwargs, dims, self.options, is_example, is_behind)
        with Progress(self.options, self.name) as stage:
            return ladder.build(asked, stage)

    def _object(self, args: tuple, kwargs: dict) -> None:
        """Raises the first form's objection to a call of another one."""
        first = self.forms.held[0]
        if first.training is not self.training:
            mode = "training" if first.training else "evaluation"
            raise Error(
                f"the module was compiled in {mode} mode",
                code="E0601",
                help="optimize once more in the other mode",
            )
        try:
            first.entries[0].run(args, kwargs)
        except Refused as refused:
            raise refused.error from None
        raise Error("the form of the call is not that of the example", code="E0601")

    def changed(self) -> list[str]:
        """The parameters and buffers that calls change, as far as they are known."""
        return sorted({name for entry in self.entries() for name in entry.changed()})

    def entries(self) -> list[Entry]:
        """All that was compiled, in order."""
        return [entry for form in self.forms.held for entry in form.entries]

    def compiled_entries(self) -> list[CompiledEntry]:
        """Those of them that disc compiled whole."""
        return [entry for entry in self.entries() if isinstance(entry, CompiledEntry)]

    def overflow(self) -> list[Entry]:
        """The entry of the forms beyond the most, if there are some."""
        return [self._overflow] if self._overflow is not None else []

    def forget(self) -> None:
        """Drops what was compiled: each form is compiled anew when it is called."""
        with self._lock:
            self.last, self.forms, self.variants = None, Forms(self.forms.parameters), Variants()
            self.kept = KeptAttributes()
            self.carried = None

    # Weights.

    def reads(self, address: int) -> bool:
        """Returns true if compiled code reads the storage at an address."""
        return any(entry.reads(address) for entry in self.entries())

    def refresh(self) -> None:
        """Reads the weights of the original again and prepares them for the compiled code."""
        module = self.original()
        for entry, weights in [(entry, refreshed(entry, module)) for entry in self.entries()]:
            entry.use(weights)

    def copy_weights(self) -> None:
        """Copies take the place of the weights: their memory is about to be freed."""
        for entry in self.entries():
            entry.copy_weights()

    def report_values(self) -> dict[str, Any]:
        from . import reports

        return reports.values(self)


def _is_traced(args: tuple, kwargs: dict) -> bool:
    """Returns true in a trace or a transform of torch, which has to see the ops of the module."""
    if torch._C._get_tracing_state() is not None or torch._C._len_torch_dispatch_stack():
        return True
    if torch._C._functorch.maybe_current_level() is not None or torch.compiler.is_compiling():
        return True
    fake = torch._subclasses.FakeTensor
    return any(isinstance(leaf, fake) for leaf in torch.utils._pytree.tree_leaves((args, kwargs)))
