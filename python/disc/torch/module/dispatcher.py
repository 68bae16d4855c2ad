"""Serves the calls of a compiled module.

A call takes the entry that served the last one, as long as that serves it and the module is as it
was; else its form is looked up, and compiled if it is new. A call that breaks what a program was
compiled for runs in PyTorch, and may have a variant compiled.

Invariant: compiled code serves a call only if the module is what it was compiled for, and its
weights are those that were prepared (``disc.torch.watch``); ``Options(watch="off")`` gives that up.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from ...core import capturing, extension, stages
from ...core.dims import STATIC
from ...core.errors import OF_DATA, DimError, Error
from ...core.options import Options
from ...core.progress import Progress
from ..calls.refusals import Refusals
from ..pytree.held_values import HeldValues
from ..pytree.parameters import Parameters
from ..watch.contents import Contents
from ..watch.modes import are_functions_seen
from ..watch.module_watch import ModuleWatch
from ..watch.reach import Reach
from ..watch.weights import gives_gradients, versions
from . import ladder
from .behind import COMPILING, Behind, Changed, Meanwhile
from .carried import Carried
from .changing_values import ChangingValues
from .entry import CompiledEntry, EagerEntry, Entry, GraphEntry, Refused, SettlingEntry, refreshed
from .forms import Form, Forms
from .open_numbers import OpenNumbers
from .variants import Variants

if TYPE_CHECKING:
    from .verify import Verification

_COMPILE = logging.getLogger("disc.compile")
_is_dynamo_compiling = torch.compiler.is_dynamo_compiling
_RUNTIME = logging.getLogger("disc.runtime")
_UNREADABLE = "an argument holds itself, or is nested too deep"
#: After so many forms of call, PyTorch runs a new one.
MOST_FORMS = 32
#: After so many programs for changes of the module a further change runs in PyTorch.
MOST_CHANGES = 8


class Dispatcher:
    """The forms of call of one module and what serves them."""

    def __init__(
        self, original: Callable[[], torch.nn.Module], dims, options: Options, attributes: dict[str, Any]
    ):
        """``attributes``: those of the compiled module, among which its hooks are."""
        module = original()
        self.original = original
        self.name = type(module).__name__
        self.training = module.training
        self.dims = dims
        self.options = options
        self.forms = Forms(Parameters(module))
        self.variants = Variants()
        self.open_numbers = OpenNumbers()
        self.changing_values = ChangingValues()
        self.verification = _verification(options)
        #: The programs of the module that this one is a copy of, until they are called.
        self.carried: Carried | None = None
        #: The code that served the last calls, which is asked first.
        self.warm = extension.warm_calls(
            attributes, vars(torch.nn.modules.module), vars(forward_ad), capturing.active
        )
        #: Serves the forms beyond the most, once there are some.
        self._overflow: EagerEntry | None = None
        #: Compiles forms while PyTorch serves their calls; None if calls wait.
        self.behind = Behind(self) if options.background else None
        #: Calls that PyTorch runs for what is around them, or for what they pass.
        self.left = Refusals()
        self._lock = threading.RLock()

    # Calls.

    def serve(self, args: tuple, kwargs: dict):
        """The result of a call."""
        if _is_dynamo_compiling():
            # Dynamo reads this, and has to find the ops of the module.
            return self.original()(*args, **kwargs)
        if capturing.active:
            with capturing.call_of(self.original()):
                return self._serve(args, kwargs)
        return self._serve(args, kwargs)

    def _serve(self, args: tuple, kwargs: dict):
        began = None
        if (last := self.warm.last) is not None:
            serves, weights, run = last
            if serves(weights):
                try:
                    return run(args, kwargs)
                except Refused as refused:
                    began = refused if refused.began is not None else None
        leaves = _leaves(args, kwargs)
        if _is_traced(leaves):
            return self.original()(*args, **kwargs)
        if (reason := _left_for(leaves, self.original)) is not None:
            self.left.count(reason)
            return self.original()(*args, **kwargs)
        if self.verification is not None and self.verification.is_open():
            return self.verification.run(self, args, kwargs)
        return self.run_form(args, kwargs, began)

    def run_form(self, args: tuple, kwargs: dict, began: Refused | None = None):
        """Serves a call by the form that it has; ``began`` has the entry that failed already."""
        return self._run(self._form(args, kwargs), args, kwargs, began)

    def _run(self, form: Form, args: tuple, kwargs: dict, began: Refused | None = None):
        refused: Refused | None = None
        for entry in list(form.entries):
            try:
                if began is not None and entry is began.began:
                    raise began
                entry = self._renewed(entry, form, args, kwargs)
                result = entry.run(args, kwargs)
            except Refused as error:
                refused = refused or error
                continue
            self._remember(entry, form, args, kwargs)
            if not isinstance(entry, GraphEntry):
                self._accept_notes(form)
            return result
        assert refused is not None, "a form has an entry"
        if form.numbers and form.is_closed:
            return self._run(self._with_constants(form, args, kwargs), args, kwargs)
        return self._refused(form, refused.error, args, kwargs)

    def _remember(self, entry: Entry, form: Form, args: tuple, kwargs: dict) -> None:
        """Asks an entry first that refuses calls of other forms: its watch, weights and run."""
        is_verified = self.verification is not None and self.verification.is_open()
        is_first = isinstance(entry, GraphEntry) and form.is_plain and not is_verified
        is_first = is_first and not entry.has_replaced
        if not is_first:
            self.warm.forget()
            return
        call = entry.warm.of(form.watch, args, kwargs) if isinstance(entry, CompiledEntry) else None
        last = (form.watch.serves, entry.weight_watch, entry.run)
        self.warm.remember(form, last, call, entry is form.entries[0])

    def _renewed(self, entry: Entry, form: Form, args: tuple, kwargs: dict) -> Entry:
        """The entry with weights as they are now: prepared again, or, where each call has others,
        one that takes them as inputs.
        """
        if not isinstance(entry, GraphEntry):
            return entry
        if entry.has_its_weights():
            if entry.has_replaced:
                self._refuse_gradients()
            return entry
        if isinstance(entry, CompiledEntry) and entry.keep_changing():
            with self._lock:
                if entry in form.entries and (found := self._taking_weights(form, args, kwargs)) is not None:
                    form.entries[form.entries.index(entry)] = found
                    form.pass_questions()
                    form.retired.append(entry.report_values())
                    return found
                entry.may_take_weights = False
        self._renew(entry)
        return entry

    def _taking_weights(self, form: Form, args: tuple, kwargs: dict) -> Entry | None:
        """Compiles the form of a call with weights as inputs; None if that is not possible."""
        if self.options.weights != "exact":
            return None
        _COMPILE.info("the weights of %s keep changing: they are not prepared any more", self.name)
        try:
            entry = self.build(args, kwargs, self.dims, takes_weights=True, held=form.held)
        except Error as error:
            _COMPILE.info("%s cannot take weights as inputs: %s", self.name, error)
            return None
        return entry if isinstance(entry, CompiledEntry) else None

    def _renew(self, entry: GraphEntry) -> None:
        """Prepares weights again that were changed; raises Refused where a gradient is asked of
        tensors that took their place.
        """
        if entry.has_its_weights():
            return
        self._refuse_gradients()
        module = self.original()
        with self._lock:
            if not entry.has_its_weights():
                # A change meanwhile is one of what is watched.
                entry.watch_weights(module)
                entry.use(refreshed(entry, module))

    def _refuse_gradients(self) -> None:
        if gives_gradients(self.original()):
            raise Refused(
                Error("a tensor that took the place of a parameter requires a gradient", code="E0610")
            )

    @staticmethod
    def _accept_notes(form: Form) -> None:
        """Takes what a call that ran in PyTorch has noted for what was."""
        if not form.watch.holds():
            coded = [entry for entry in form.entries if isinstance(entry, GraphEntry)]
            form.watch.accept_notes({name for entry in coded for name in entry.notes} if coded else None)

    def _refused(self, form: Form, error: Error, args: tuple, kwargs: dict):
        """Serves a call that breaks a fact of what was compiled: by torch."""
        first = form.entries[0]
        is_fact = isinstance(error, DimError) and isinstance(first, GraphEntry)
        if self.options.fallback == "error" or (is_fact and first.call.is_stated(error)):
            raise error
        if is_fact:
            self.variants.offer(self, form, error, args, kwargs)
        try:
            result = self.original()(*args, **kwargs)
        except Exception as raised:
            # Nobody served the call, so it is no call that PyTorch runs.
            if error.code in OF_DATA:
                raise error from raised
            raise
        finally:
            self._accept_notes(form)
        level = logging.INFO if form.refusals.note(error) else logging.DEBUG
        _RUNTIME.log(level, "torch runs a call of %s: %s", self.name, error)
        return result

    # Forms.

    def prepare(self, args: tuple, kwargs: dict) -> None:
        """Compiles the form of this call, if it is not there."""
        if _leaves(args, kwargs) is None:
            if self.options.fallback == "error":
                raise Error(_UNREADABLE, code="E0601")
            return
        key = self.forms.key(self.training, args, kwargs)
        if self._is_asked(key, args, kwargs):
            self.behind.start()
            return
        with self._lock:
            if self.forms.find(key, self.original) is None and self._take_up(key) is None:
                self._compile(key, args, kwargs, is_example=True)

    def _form(self, args: tuple, kwargs: dict, may_be_open: bool = True) -> Form:
        self.changing_values.note_thread()
        key = self.forms.key(self.training, args, kwargs)
        if (found := self.forms.find(key, self.original, may_be_open)) is not None:
            return found
        if self._is_asked(key, args, kwargs):
            self.left.count(COMPILING)
            return Form(key, ModuleWatch(None), [Meanwhile(self.original, self.behind)])
        with self._lock:
            found = self.forms.find(key, self.original, may_be_open) or self._equal(key)
            return found or self._take_up(key) or self._compile(key, args, kwargs)

    def _is_asked(self, key: tuple, args: tuple, kwargs: dict) -> bool:
        """Returns true if another thread compiles the form of a call, which is not there yet."""
        if self.behind is None or not self.behind.may_compile(key):
            return False
        self.behind.ask(key, args, kwargs)
        return True

    def compile_behind(self, key: tuple, args: tuple, kwargs: dict) -> None:
        """Compiles the form of a call while calls go on; raises Changed if the module was changed
        meanwhile.
        """
        if self.forms.find(key, self.original) or self._equal(key) or self._take_up(key):
            return
        if self.training is not key[0]:
            raise Changed
        self._compile(key, args, kwargs, is_behind=True)

    def _equal(self, key: tuple) -> Form | None:
        """A form for a module that has other lists and dicts now, which hold the same."""
        forms = self.forms.of_key(key)
        is_watched = self.options.watch != "off" and not self.options.release_weights
        now = Contents(Reach(self.original())) if forms and is_watched else None
        for form in forms:
            if form.watch.is_equal() or (now is not None and form.watch.is_back(now)):
                form.watch = self.watch(form.entries[0], form.held)
                if form.is_for(self.original):
                    return form
        return None

    def _with_constants(self, form: Form, args: tuple, kwargs: dict) -> Form:
        """The form for the values of a call's numbers: none of the programs for all values of
        ``form`` serves them.
        """
        self.open_numbers.refuse(form)
        return self._form(args, kwargs, may_be_open=False)

    def watch(self, entry: Entry | None = None, held: HeldValues | None = None) -> ModuleWatch:
        """Watches the module as it is now, for an entry. One that may go away is not held."""
        is_off = self.options.watch == "off" or self.options.release_weights
        tables = entry.notes if isinstance(entry, GraphEntry) else ()
        return ModuleWatch(None if is_off else Reach(self.original()), tables, held)

    def _hold(self, form: Form, before: list | None = None) -> Form:
        for entry in form.entries:
            self.watch_weights(entry, before)
        form.pass_questions()
        self.forms.held.append(form)
        return form

    def watch_weights(self, entry: Entry, before: list | None = None) -> None:
        """Watches the weights of an entry from now on. Those that changed since ``before``, while
        it was compiled, are read again.
        """
        if self.options.watch == "off" or self.options.release_weights or not isinstance(entry, GraphEntry):
            return
        module = self.original()
        entry.watch_weights(module)
        if before is not None and versions(module) != before:
            entry.use(refreshed(entry, module))

    def is_compiled(self, args: tuple, kwargs: dict) -> bool:
        """Returns true if compiled code serves a call, and not only PyTorch."""
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
        if self.carried is None or not (entries := self.carried.take(self, key)):
            return None
        return self._hold(Form(key, self.watch(), [*entries]))

    def _compile(self, *call, **given) -> Form:
        if not _COMPILE.isEnabledFor(logging.DEBUG):
            return self._new_form(*call, **given)
        with stages.tree(self.name) as tree:
            form = self._new_form(*call, **given)
        _COMPILE.debug("%s", tree)
        return form

    def _new_form(
        self, key: tuple, args: tuple, kwargs: dict, is_example: bool = False, is_behind: bool = False
    ) -> Form:
        others = self.forms.of_key(key)
        if self.options.fallback == "error" and self.forms.held and not is_example and not others:
            self._object(args, kwargs)
        if len(self.forms.held) >= MOST_FORMS:
            if self._overflow is None:
                error = Error(f"{MOST_FORMS} forms of call were compiled, and no more are", code="E0601")
                self._overflow = EagerEntry(self.original, error)
            return Form(key, ModuleWatch(None), [self._overflow])
        if (
            not is_behind
            and (found := self.changing_values.form(self, key, others, args, kwargs)) is not None
        ):
            return self._hold(found, self.versions())
        if len(others) >= MOST_CHANGES:
            return self._hold(Form(key, ModuleWatch(None), [self._of_changes(others)]))
        if others:
            _COMPILE.info("%s was changed (%s), and is compiled again", self.name, _listed(others[-1]))
        elif self.forms.held:
            _COMPILE.info("%s is compiled for another form of call", self.name)
        with stages.stage("watch"):
            watch, before = self.watch(), self.versions()
        if self.forms.held and self.dims != STATIC:
            found = self.open_numbers.form(self, key, watch, args, kwargs, is_behind)
            if found is not None:
                return self._hold(found, before)
        # Calls that go on meanwhile may change it at any moment.
        is_watched = before is not None and not is_behind
        settled = any(isinstance(entry, SettlingEntry) for form in others for entry in form.entries)
        entry = self.build(
            args,
            kwargs,
            self.dims,
            is_example,
            is_behind,
            observed=watch if is_watched else None,
            may_settle=not settled,
        )
        if is_behind and not watch.holds():
            raise Changed
        if not watch.holds() and not watch.is_prepared():
            # Another thread may have changed the module meanwhile, or the first call of all did.
            watch = self.watch()
            entry = self.build(args, kwargs, self.dims, is_example, may_settle=not settled)
        if not watch.holds() or getattr(entry, "notes", ()):
            watch = self.watch(entry)
        return self._hold(Form(key, watch, [entry]), before)

    def versions(self) -> list | None:
        """The versions of the weights; None where nobody watches them."""
        is_off = self.options.watch == "off" or self.options.release_weights
        return None if is_off else versions(self.original())

    def _of_changes(self, others: list[Form]) -> EagerEntry:
        """Serves all further states of a module that is changed again and again."""
        error = Error(f"{_listed(others[-1])} changed {len(others)} times", code="E0601")
        if self.options.fallback == "error":
            raise error
        return EagerEntry(self.original, error)

    def build(
        self,
        args: tuple,
        kwargs: dict,
        dims,
        is_example: bool = False,
        is_behind: bool = False,
        takes_weights: bool = False,
        held: HeldValues | None = None,
        observed: ModuleWatch | None = None,
        may_settle: bool = False,
    ) -> Entry:
        """Compiles the form of a call; ``is_behind``: while calls of the module go on.
        ``observed`` has watched the module from before; with ``may_settle`` PyTorch may run one
        call that settles attributes.
        """
        asked = ladder.Request(
            self.original,
            args,
            kwargs,
            dims,
            self.options,
            is_example,
            is_behind,
            takes_weights,
            held,
            observed,
            may_settle,
        )
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
        """Those of them that disc compiled whole for the module as it is now, with its weights."""
        current = [f for f in self.forms.held if f.held is None and f.is_for(self.original)]
        found = [entry for form in current for entry in form.entries if isinstance(entry, CompiledEntry)]
        for entry in found:
            self._renew(entry)
        return found

    def overflow(self) -> list[Entry]:
        """The entry of the forms beyond the most, if there are some."""
        return [self._overflow] if self._overflow is not None else []

    def forget(self) -> None:
        """Drops what was compiled: each form is compiled anew when it is called."""
        with self._lock:
            self.warm.forget()
            self.forms, self.variants = Forms(self.forms.parameters), Variants()
            self.carried = None

    # Weights.

    def reads(self, address: int) -> bool:
        """Returns true if compiled code reads the storage at an address."""
        return any(entry.reads(address) for entry in self.entries())

    def refresh(self) -> None:
        """Reads the weights of the original again and prepares them for the compiled code."""
        module = self.original()
        # Those for another state of the module are looked at when that is back.
        entries = [entry for form in self.forms.held if form.is_for(self.original) for entry in form.entries]
        for entry, weights in [(entry, refreshed(entry, module)) for entry in entries]:
            entry.use(weights)
            self.watch_weights(entry)
        self.warm.forget()

    def copy_weights(self) -> None:
        """Copies take the place of the weights: their memory is about to be freed."""
        for entry in self.entries():
            entry.copy_weights()

    def report_values(self) -> dict[str, Any]:
        from . import reports

        return reports.values(self)


def _verification(options: Options) -> Verification | None:
    """The calls that are to be compared with eager mode; None if there are none."""
    if not options.verify:
        return None
    from .verify import Verification

    return Verification(options.verify)


def _listed(form: Form) -> str:
    """Names what is not as it was when a form was compiled."""
    changed = form.watch.changed()
    shown = ", ".join(changed[:3])
    return f"{shown} and {len(changed) - 3} more" if len(changed) > 3 else shown


def _is_traced(leaves: list | None) -> bool:
    """Returns true in a trace of torch, which has to see the ops of the module."""
    if torch._C._get_tracing_state() is not None or torch.compiler.is_compiling():
        return True
    fake = torch._subclasses.FakeTensor
    return any(isinstance(leaf, fake) for leaf in leaves or ())


def _left_for(leaves: list | None, original: Callable[[], torch.nn.Module]) -> str | None:
    """The reason for which PyTorch runs a call, whatever was compiled."""
    if torch._C._functorch.maybe_current_level() is not None:
        return "the call is within a transform of torch.func"
    if torch._C._len_torch_dispatch_stack():
        return "a mode with __torch_dispatch__ is around the call"
    if are_functions_seen(original):
        return "a mode with __torch_function__, or another default device, is around the call"
    return _UNREADABLE if leaves is None else None


def _leaves(args: tuple, kwargs: dict) -> list | None:
    """The leaves of a call; None for a container that holds itself."""
    given = [*args, *kwargs.values()]
    if all(isinstance(x, torch.Tensor) for x in given):
        return given
    try:
        return torch.utils._pytree.tree_leaves((args, kwargs))
    except RecursionError:
        return None
