"""``OptimizedModule``: a module that stands in for another one and runs compiled code."""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as _modules

from ...core import extension
from ...core.errors import Error
from ...core.options import Options
from ...core.report import Compiled
from . import carried, reports
from .dispatcher import Dispatcher
from .encoders import Encoders
from .stand_in import StandInType, class_for
from .weights import watch


def _table_of_original(name: str) -> property:
    """The original's table of parameters, buffers, submodules or hooks of its state: functions of
    torch that trace, export, convert or call a module (``functional_call``) read and write these
    themselves.
    """

    def get(self) -> dict:
        return getattr(self.original, name)

    def put(self, value) -> None:
        """Keeps the tables that the base class makes; nobody reads them."""
        self.__dict__[name] = value

    return property(get, put)


class _Forward:
    """``forward`` of a compiled module, with the signature of the original's."""

    def __init__(self, module: OptimizedModule):
        self.__self__ = module
        self.__name__ = "forward"
        self.__doc__ = type(module.original).forward.__doc__

    def __getattr__(self, name: str):
        """Attributes of a function, such as its code, which ``torch.export`` looks at."""
        if name == "__self__":
            # A copy that has nothing yet.
            raise AttributeError(name)
        return getattr(self.__self__.original.forward, name)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__self__.original.forward)

    def __call__(self, *args, **kwargs):
        return self.__self__._dispatcher.serve(args, kwargs)


class _ForwardOf:
    """Gives the ``forward`` of a compiled module; of its class, that of the class of the original,
    which ``torch.fx`` traces.
    """

    def __get__(self, module: OptimizedModule | None, kind: type):
        if module is not None:
            return _Forward(module)
        return kind._stands_for.forward if "_stands_for" in vars(kind) else self


class OptimizedModule(torch.nn.Module, Compiled, metaclass=StandInType):
    """A compiled module.

    It shares the weights and the attributes of the module that it was made from: ``config``,
    ``device`` or a submodule are that one's, and a method such as ``generate`` is bound to this
    one, so that it calls compiled code. Changes of that module are seen at the next call.
    """

    def __new__(cls, module: torch.nn.Module, dims, options: Options):
        return super().__new__(class_for(type(module), OptimizedModule))

    def __init__(self, module: torch.nn.Module, dims, options: Options):
        torch.nn.Module.__init__(self)
        # Not a submodule: names of parameters and of the state dict stay those of the original.
        own = self.__dict__
        own["_original"] = weakref.ref(module) if options.release_weights else lambda: module
        own["_kind"] = type(module)
        own["training"] = module.training
        own["options"] = options
        own["_dispatcher"] = Dispatcher(_Living(own["_original"]), dims, options, own)
        # Calls look for it here.
        own["_warm"] = self._dispatcher.warm
        own["_encoders"] = Encoders(options, OptimizedModule)
        watch(self)

    # Calls.

    @extension.call_method
    def __call__(self, *args, **kwargs):
        """``forward``, by the way of ``torch.nn.Module`` only where there are hooks: that costs a
        quarter of a small call. Hooks of all modules are part of what is compiled.

        A call like one that was served before is native, and does not come here.
        """
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _modules._global_backward_hooks
            or _modules._global_backward_pre_hooks
            or self._compiled_call_impl is not None
        ):
            return super().__call__(*args, **kwargs)
        return self.__dict__["_dispatcher"].serve(args, kwargs)

    #: Computes what the ``forward`` of the original computes; has its signature.
    forward = _ForwardOf()

    # The original.

    @property
    def original(self) -> torch.nn.Module:
        """The module that this one was made from.

        With ``release_weights`` it lives only as long as somebody else holds it.
        """
        return self.__dict__["_dispatcher"].original()

    @property
    def __class__(self):
        # ``isinstance``, and ``super()`` in a method of the original that is bound to this module.
        held = self.__dict__.get("_original")
        module = held() if held is not None else None
        return self.__dict__.get("_kind", OptimizedModule) if module is None else module.__class__

    @__class__.setter
    def __class__(self, kind: type) -> None:
        """Changes the class of the original, as parametrizations and ``fully_shard`` do."""
        self.original.__class__ = kind

    def __prepare_scriptable__(self) -> torch.nn.Module:
        """The original, which ``torch.jit.script`` compiles."""
        return self.original

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.original)})

    def __getattr__(self, name: str):
        try:
            return super().__getattr__(name)
        except AttributeError:
            held = self.__dict__.get("_original")
            if held is None or name in _APART:
                raise
        value = getattr(self.original, name)
        if isinstance(value, types.MethodType) and value.__self__ is self.original:
            bound = types.MethodType(value.__func__, self)
            return bound if name != "get_encoder" else functools.partial(self._encoder, bound)
        return value

    def _encoder(self, method: Callable, *args, **kwargs):
        """An encoder that a method calls past this module: compiled too."""
        return self.__dict__["_encoders"].compiled(method(*args, **kwargs), self.original)

    def __setattr__(self, name: str, value) -> None:
        if "_original" not in self.__dict__ or name in self.__dict__ or hasattr(OptimizedModule, name):
            super().__setattr__(name, value)
        else:
            setattr(self.original, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self.original, name)

    _parameters = _table_of_original("_parameters")
    _buffers = _table_of_original("_buffers")
    _modules = _table_of_original("_modules")
    _non_persistent_buffers_set = _table_of_original("_non_persistent_buffers_set")
    _state_dict_hooks = _table_of_original("_state_dict_hooks")
    _state_dict_pre_hooks = _table_of_original("_state_dict_pre_hooks")
    _load_state_dict_pre_hooks = _table_of_original("_load_state_dict_pre_hooks")
    _load_state_dict_post_hooks = _table_of_original("_load_state_dict_post_hooks")

    def train(self, mode: bool = True):
        self.original.train(mode)
        self.__dict__["training"] = self._dispatcher.training = self.original.training
        self._dispatcher.warm.forget()
        return self

    # Weights.

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all forms of call are compiled that calls asked for, with
        ``Options(background=True)``; returns false if that took more than ``timeout`` seconds.
        """
        behind = self._dispatcher.behind
        return behind is None or behind.wait(timeout)

    def refresh(self) -> None:
        """Reads the weights of the original again and prepares them for the compiled code: without
        ``Options(watch="off")`` calls do so themselves.
        """
        self._refuse_released()
        self._dispatcher.refresh()
        self._encoders.refresh()

    def before_move(self, storage: torch.UntypedStorage) -> None:
        """The memory of a storage is about to be freed: if it is that of a weight,
        copies of the weights take their place.
        """
        dispatcher = self.__dict__["_dispatcher"]
        if not dispatcher.reads(storage.data_ptr()) or self.__dict__["_original"]() is None:
            return
        if self.options.release_weights:
            raise Error(
                "a compiled module reads this memory, and its weights were released",
                help="call share_memory() before disc.optimize, or compile without release_weights",
            )
        dispatcher.copy_weights()

    def _refuse_released(self) -> None:
        if self.options.release_weights:
            raise Error(
                "the weights were released and cannot be refreshed",
                help="compile without release_weights",
            )

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        self._refuse_released()
        result = self.original.load_state_dict(state_dict, strict=strict, assign=assign)
        self.refresh()
        return result

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Loads the entries below ``prefix`` for the ``load_state_dict`` of a module
        that holds this one.
        """
        self._refuse_released()
        own = OrderedDict((k.removeprefix(prefix), v) for k, v in state_dict.items() if k.startswith(prefix))
        # Versions of entries are known only to the whole dict: these are taken for today's.
        own._metadata = {name: {"version": m._version} for name, m in self.original.named_modules()}
        assign = local_metadata.get("assign_to_params_buffers", False)
        try:
            missing, unexpected = self.original.load_state_dict(own, strict=False, assign=assign)
        except RuntimeError as error:
            error_msgs.append(str(error))
            return
        missing_keys += [prefix + name for name in missing]
        if strict:
            unexpected_keys += [prefix + name for name in unexpected]
        self.refresh()

    def state_dict(self, *args, **kwargs):
        return self.original.state_dict(*args, **kwargs)

    def named_parameters(self, *args, **kwargs):
        return self.original.named_parameters(*args, **kwargs)

    def named_buffers(self, *args, **kwargs):
        return self.original.named_buffers(*args, **kwargs)

    def named_children(self):
        return self.original.named_children()

    def named_modules(self, memo: set | None = None, *args, **kwargs):
        """Those of the original, which this one stands in for: as a part of another module it is
        known by the original, which a trace calls.
        """
        original, is_part = self.original, memo is not None
        for name, m in original.named_modules(memo, *args, **kwargs):
            yield name, self if m is original and not is_part else m

    def _apply(self, fn, recurse=True):
        """``to``, ``float`` and the like, also of a module that holds this one: the original is
        converted, and compiled anew where that changes its weights.
        """
        if not self._changes(fn):
            return self
        self._refuse_released()
        self.original._apply(fn, recurse)
        self._dispatcher.forget()
        self._encoders.forget()
        return self

    def _changes(self, fn) -> bool:
        """Returns true if ``fn`` would give a weight another type, device or kind of memory."""
        kinds = {(t.dtype, t.dim(), t.device) for t in (*self.parameters(), *self.buffers())}
        try:
            weights = [torch.empty([1] * rank, dtype=dtype, device=device) for dtype, rank, device in kinds]
            moved = [fn(weight) for weight in weights]
            # Memory of a GPU counts as shared.
            shares = (weight.is_shared() for weight in weights if weight.device.type == "cpu")
            return any(map(operator.is_not, moved, weights)) or any(shares)
        except Exception:
            return True

    # Copies.

    def __copy__(self):
        made = self._copy_over(self.original)
        made.__dict__.update({name: copy.copy(table) for name, table in self._hooks().items()})
        return made

    def __deepcopy__(self, memo):
        made = self._copy_over(copy.deepcopy(self.original, memo))
        # Hooks may be methods of objects that hold this module.
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self._hooks(), memo))
        return made

    def _copy_over(self, module: torch.nn.Module) -> OptimizedModule:
        made = OptimizedModule(module, self._dispatcher.dims, self.options)
        made._dispatcher.carried = carried.carried(self._dispatcher)
        return made

    def __reduce_ex__(self, protocol):
        packed = carried.pack(carried.carried(self._dispatcher), self.options)
        made_of = self.original, self._dispatcher.dims, self.options, packed
        # Hooks come afterwards: they may be methods of objects that hold this module.
        return _rebuilt, made_of, self._hooks() or None, None, None, _take_hooks

    def _hooks(self) -> dict[str, Any]:
        """Its own hooks, by table."""
        return {name: self.__dict__[name] for name in _HOOKS if self.__dict__[name]}

    # What people see.

    def report_values(self) -> dict[str, Any]:
        return self._encoders.add_to(reports.values(self._dispatcher))

    def contains(self, code: Any) -> bool:
        return self._encoders.contains(code)

    def executables(self) -> list[Any]:
        own = [one for entry in self._dispatcher.entries() for one in entry.executables()]
        return own + self._encoders.executables()

    def __repr__(self) -> str:
        return reports.tree(self._dispatcher)


#: Looked up on modules in ways that no attribute of the original answers.
_APART = frozenset(("_original", "_kind", "__wrapped__"))
#: Hooks of calls, which a compiled module has apart from the original.
_HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook",
)  # fmt: skip


class _Living:
    """Gives the original, as long as it lives."""

    def __init__(self, held: Callable[[], torch.nn.Module | None]):
        self._held = held

    def __call__(self) -> torch.nn.Module:
        module = self._held()
        if module is None:
            raise Error(
                "the original module is gone: with release_weights nothing here holds it",
                help="keep it, or compile without release_weights",
            )
        return module


def _rebuilt(module: torch.nn.Module, dims, options: Options, packed: bytes | None = None) -> OptimizedModule:
    made = OptimizedModule(module, dims, options)
    made._dispatcher.carried = carried.unpack(packed)
    return made


def _take_hooks(made: OptimizedModule, hooks: dict[str, Any]) -> None:
    made.__dict__.update(hooks)
