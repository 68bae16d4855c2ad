"""The compilers that are compared. Each makes a ``Built`` out of a module and inputs of all sizes,
or raises ``Skipped`` with the reason.
"""

from __future__ import annotations

import copy
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from peers import Skipped, named, typical

from .checks import tensors

#: Seconds that versions for frequent sizes may take, which are compiled while calls go on.
SETTLES = 20.0


def _nothing() -> None:
    return None


@dataclass
class Built:
    """A contestant that is ready for calls.

    ``convert`` is applied once to inputs, outside of what is timed. ``module`` is what disc's
    report and profile take. Results of a contestant that ``keeps`` them stay valid after its next
    call; ``wait`` waits for work that the streams of torch do not.
    """

    run: Callable
    convert: Callable = lambda inputs: inputs
    results: Callable = tensors
    wait: Callable[[], object] = _nothing
    by_events: bool = True
    keeps: bool = True
    module: object = None
    #: A choice that the contestant made for this case, for the record.
    about: str = ""
    before: Callable[[], object] | None = None
    #: Waits for what a contestant still compiles in the background.
    settle: Callable[[], object] = _nothing

    def __call__(self, inputs):
        if self.before is not None:
            self.before()
        return self.run(inputs)


@dataclass(frozen=True)
class Setting:
    """The device and the type of elements."""

    device: torch.device
    dtype: str

    @property
    def name(self) -> str:
        """The device as disc calls it."""
        return "cpu" if self.device.type == "cpu" else f"cuda:{self.device.index or 0}"


def eager(module, examples, setting: Setting) -> Built:
    return Built(lambda inputs: module(*inputs))


def disc(module, examples, setting: Setting) -> Built:
    """disc, compiled once: sizes that differ between examples are dynamic, equal ones one dim."""
    import disc

    options = disc.Options(cache=False, device=setting.name, threads=1)
    fast = disc.optimize(module, typical(examples), dims=named(examples), options=options)

    def settle() -> None:
        ends = time.monotonic() + SETTLES
        while disc.report(fast).to_dict()["specialized"]["pending"] and time.monotonic() < ends:
            time.sleep(0.01)

    return Built(lambda inputs: fast(*inputs), module=fast, settle=settle)


def channels_last(module, examples, setting: Setting) -> Built:
    """Eager with images and filters in the layout that libraries for convolutions like best."""
    if not any(isinstance(part, torch.nn.Conv2d) for part in module.modules()):
        raise Skipped("no convolutions of images")
    copied = copy.deepcopy(module).to(memory_format=torch.channels_last)

    def convert(inputs):
        return [t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in inputs]

    return Built(lambda inputs: copied(*inputs), convert)


def backend(module, examples, setting: Setting) -> Built:
    """disc as the backend of ``torch.compile``."""
    options = {"cache": False, "progress": False, "device": setting.name, "threads": 1}
    fast = torch.compile(module, backend="disc", dynamic=True, options=options)
    return Built(lambda inputs: fast(*inputs), module=fast)


def inductor(module, examples, setting: Setting) -> Built:
    """Inductor, told that sizes are dynamic."""
    fast = torch.compile(module, dynamic=True)
    return Built(lambda inputs: fast(*inputs))


def inductor_graphs(module, examples, setting: Setting) -> Built:
    """Inductor with CUDA graphs, of which it records one for each size."""
    if setting.device.type != "cuda":
        raise Skipped("CUDA graphs need a GPU")
    fast = torch.compile(module, dynamic=True, mode="reduce-overhead")
    # Results live in the memory of the graph: the next call writes over them.
    return Built(lambda inputs: fast(*inputs), keeps=False, before=torch.compiler.cudagraph_mark_step_begin)


def inductor_static(module, examples, setting: Setting) -> Built:
    """Inductor, compiled once more for each size."""
    fast = torch.compile(module, dynamic=False)
    return Built(lambda inputs: fast(*inputs))


def jax(module, examples, setting: Setting) -> Built:
    """The graph of torch.export as a function of JAX, which its jit compiles for each size."""
    from .jax_graph import built

    return built(module, examples, setting)


CONTESTANTS: dict[str, Callable[..., Built]] = {
    "disc": disc,
    "backend": backend,
    "eager": eager,
    "channels_last": channels_last,
    "inductor": inductor,
    "inductor_graphs": inductor_graphs,
    "inductor_static": inductor_static,
    "jax": jax,
}
#: The contestants that Inductor compiles for: their caches on disk can be filled ahead.
OF_INDUCTOR = ("inductor", "inductor_graphs", "inductor_static")
_PACKAGES = {"disc": "disc", "backend": "disc", "jax": "jax"}


def missing(name: str, setting: Setting) -> str | None:
    """Returns why a contestant cannot run here at all, or ``None`` if it can."""
    package = _PACKAGES.get(name)
    if name in OF_INDUCTOR and setting.device.type == "cuda":
        package = "triton"
    if package is not None and importlib.util.find_spec(package) is None:
        return f"not installed: {package}"
    return None


def reset() -> None:
    """Forgets what dynamo compiled, and lets it compile once more for each size of a case."""
    torch._dynamo.reset()
    # A limit would end in eager, under the name of a compiler.
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.accumulated_recompile_limit = 1024
