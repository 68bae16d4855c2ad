"""Measures the overhead of a call from Python: of a compiled module beside one that returns its
input, and of ``torch.compile`` beside a backend that computes nothing.

    benches/overhead/call.py [--rounds 100]

Nanoseconds of a call, least and median over rounds that take turns, on one thread, without
gradients. The host's part of a large model's call is what it takes longer than its compiled code:
the look at the module and its weights, the binding of the arguments, and the output.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable

import disc
import torch
from transformers import BertConfig, BertModel

#: Calls of one timing.
CALLS = 200


class Identity(torch.nn.Module):
    def forward(self, x):
        return x


class One(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1


class Five(torch.nn.Module):
    def forward(self, x):
        return (torch.tanh(x * 2 + 1) - 0.5).relu()


def nothing(gm, example_inputs):
    """A backend that returns the last argument, which is the input, for each result."""
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    count = len(output.args[0])
    return lambda *args: (args[-1],) * count


def modules() -> dict[str, Callable]:
    """Calls by name: of an identity, and of small modules, eager and compiled."""
    x, linear = torch.randn(2, 8), torch.nn.Linear(8, 8).eval()
    calls = {"identity": functools.partial(Identity(), x)}
    for name, module in (("x*2+1", One()), ("5 ops", Five()), ("linear 8x8", linear)):
        calls[f"eager, {name}"] = functools.partial(module, x)
        calls[f"disc, {name}"] = functools.partial(disc.optimize(module), x)
    by_keyword = disc.optimize(One())
    calls["disc, x*2+1 by keyword"] = functools.partial(by_keyword, x=x)
    by_keyword(x=x)
    (executable,) = by_keyword.executables()
    calls["code of x*2+1"] = functools.partial(executable.run, [x])
    for name, module in (("x*2+1", One()), ("linear 8x8", linear)):
        for backend, label in ((nothing, "no-op backend"), ("disc", "torch.compile")):
            torch._dynamo.reset()
            calls[f"{label}, {name}"] = functools.partial(torch.compile(module, backend=backend), x)
            calls[f"{label}, {name}"]()
    return calls


def bert() -> tuple[Callable, Callable]:
    """A BERT of 12 narrow layers: its call, and only its compiled code."""
    config = BertConfig(
        hidden_size=16, num_hidden_layers=12, num_attention_heads=2, intermediate_size=32, vocab_size=100
    )
    model = BertModel(config).eval()
    inputs = {
        "input_ids": torch.randint(0, 100, (1, 4)),
        "attention_mask": torch.ones(1, 4, dtype=torch.long),
    }
    fast = disc.optimize(model)
    fast(**inputs)
    (executable,) = fast.executables()
    given = [inputs[row["name"]] for row in executable.entry["inputs"]]
    return functools.partial(fast, **inputs), functools.partial(executable.run, given)


def timed(calls: dict[str, Callable], rounds: int) -> dict[str, list[float]]:
    """Nanoseconds of each call, by name; one timing a round."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(20):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                call()
            found[name].append((time.perf_counter_ns() - start) / CALLS)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with torch.no_grad():
        calls = modules()
        calls["disc, BERT of 12 layers"], calls["code of BERT"] = bert()
        found = timed(calls, rounds)
    for name, times in found.items():
        print(f"{name:28} {min(times):8.0f} {statistics.median(times):8.0f}")
    least = {name: min(times) for name, times in found.items()}
    for name in ("x*2+1", "5 ops", "linear 8x8"):
        ours, eager = least[f"disc, {name}"], least[f"eager, {name}"]
        print(f"{name}: {ours - least['identity']:.0f} ns above identity, {ours / eager:.2f} of eager")
    for name in ("x*2+1", "linear 8x8"):
        above = least[f"torch.compile, {name}"] - least[f"no-op backend, {name}"]
        print(f"torch.compile, {name}: {above:.0f} ns above a no-op backend")
    # A run of code binds its inputs and makes its outputs too: as much as that of one op.
    host = least["disc, BERT of 12 layers"] - least["code of BERT"] + least["code of x*2+1"]
    print(f"BERT of 12 layers: {host:.0f} ns on the host")


if __name__ == "__main__":
    main()
