"""Random modules for the tests of partitions: ops that disc compiles between ops that it lacks,
writes in place, views, random numbers.

``python tests/torch/capture/random_programs.py --count 2000 --seed 1`` tries many of them.
"""

from __future__ import annotations

import argparse
import copy
import random

import disc
import torch
from torch import nn

#: Statements with ``{a}`` and ``{b}`` for values of shape [n, 6].
COMPILED = (
    "{a} + {b}",
    "{a} * {b}",
    "{a}.relu() - {b}",
    "{a}.softmax(-1)",
    "{a} @ self.weight",
    "torch.tanh({a}) * self.buffer",
    "{a} - {a}.mean(0)",
    "torch.where({a} > 0, {b}, {a})",
    "torch.cat([{a}[:, :3], {b}[:, 3:]], 1)",
    "{a} * {a}.shape[0]",
    "{a}.t().contiguous().t() + {b}",
    "{a}.flip(0)",
)
LEFT = (
    "torch.linalg.qr({a} @ {a}.t() + torch.eye({a}.shape[0])).R[:, :1] + {b}",
    "{a} + torch.linalg.eigvalsh({b} @ {b}.t())[:, None]",
    "torch.special.zeta({a}.abs() + 2, 1.5) + {b}",
)
RANDOM = (
    "F.dropout({a}, 0.5, True)",
    "{a} + torch.rand_like({b})",
    "{a} * torch.bernoulli(torch.full_like({a}, 0.5))",
    "{a} + torch.randn({a}.shape[0], 6)",
)
WRITES = (
    "{a}.add_({b}.clone())",
    "{a}[:, 1:3].mul_(2)",
    "{a}[0] = 1",
    "{a}.t()[2].copy_({b}[:, 0].clone())",
    "self.buffer.add_({a}.sum(0))",
    "self.buffer[1:3] = 0.5",
    "F.dropout({a}, 0.3, True, inplace=True)",
    "{a}.select(1, 0).fill_(3)",
)


class Program(nn.Module):
    """Runs statements over a growing list of values."""

    def __init__(self, lines: list[str], results: list[int]):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6) * 0.3)
        self.register_buffer("buffer", torch.rand(6))
        self.text = "def run(self, x, y):\n" + "".join(f"    {line}\n" for line in lines)
        self.text += f"    return {', '.join(f'v{i}' for i in results)}\n"
        space = {"torch": torch, "F": nn.functional}
        exec(self.text, space)
        self.run = space["run"]

    def forward(self, x, y):
        return self.run(self, x, y)

    def __deepcopy__(self, memo):
        twin = copy.copy(self)
        twin._parameters = {"weight": nn.Parameter(self.weight.detach().clone())}
        twin._buffers = {"buffer": self.buffer.clone()}
        return twin


def program(seed: int) -> Program:
    """A random module: its first values are copies of its inputs, since inputs may not change."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    lines, count = ["v0 = x * 1.0", "v1 = y + 0.0"], 2
    weights = [draw.choice((4, 8)), draw.choice((0, 1, 2)), draw.choice((0, 1, 2)), draw.choice((0, 1, 2))]
    for _ in range(draw.randint(3, 14)):
        (kind,) = draw.choices((COMPILED, LEFT, RANDOM, WRITES), weights)
        a, b = (f"v{draw.randrange(count)}" for _ in range(2))
        text = draw.choice(kind).format(a=a, b=b)
        if kind is WRITES:
            lines.append(text)
        elif draw.random() < 0.15:
            lines.append(f"v{count} = {a}.view(-1, 2, 3).transpose(1, 2).reshape(-1, 6)")
            count += 1
        elif draw.random() < 0.1:
            lines.append(f"v{count} = {a}[:, :]")
            count += 1
        else:
            lines.append(f"v{count} = {text}")
            count += 1
    results = sorted({count - 1, *(draw.randrange(count) for _ in range(2))})
    return Program(lines, results)


def tried(seed: int) -> tuple[str | None, int]:
    """Compares a random module with its compiled form: a text of what differs, None if nothing
    does, and the number of clusters that were compiled.
    """
    module = program(seed).eval()
    fast = disc.optimize(module, options=disc.Options(fallback="framework", min_cluster_size=1))
    found = _difference(module, fast)
    return found, disc.report(fast).to_dict()["clusters"]


def _difference(module: Program, fast) -> str | None:
    with torch.no_grad():
        for n in (5, 3, 8):
            x, y = torch.randn(n, 6), torch.randn(n, 6)
            twin = copy.deepcopy(module)
            torch.manual_seed(n)
            expected = twin(x.clone(), y.clone())
            torch.manual_seed(n)
            result = fast(x, y)
            pairs = zip(_leaves(result), _leaves(expected), strict=True)
            pairs = [*pairs, (module.buffer, twin.buffer)]
            for i, (ours, theirs) in enumerate(pairs):
                scale = max(float(theirs.abs().max()) if theirs.numel() else 1.0, 1.0)
                if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * scale, equal_nan=True):
                    return f"{n} rows, result {i}:\n{module.text}"
    return None


def _leaves(result) -> tuple:
    return result if isinstance(result, tuple) else (result,)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    wrong = compiled = 0
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        found, clusters = tried(seed)
        compiled += clusters > 0
        if found is not None:
            wrong += 1
            print(f"seed {seed}: {found}")
    print(f"{chosen.count} programs, {compiled} compiled in whole or in part, {wrong} differ")


if __name__ == "__main__":
    main()
