"""Ops that the bridge has no entry for: torch's decompositions of them are compiled, with sizes that only the call knows."""

from __future__ import annotations

import pytest
import torch
from disc import _decompose
from disc._capture import capture
from disc.bridge import torch as bridge
from torch.nn import functional as F

#: What is computed, and shapes of inputs; the first ones are the example.
CASES = {
    "tensordot": (
        lambda x, y: torch.tensordot(x, y, dims=([1, 2], [0, 1])),
        [((3, 4, 5), (4, 5, 6)), ((2, 3, 7), (3, 7, 1)), ((1, 1, 0), (1, 0, 2))],
    ),
    "trace": (lambda x: x.trace(), [((4, 4),), ((7, 3),), ((1, 1),)]),
    "diag_embed": (lambda x: torch.diag_embed(x, 1), [((2, 3),), ((4, 1),), ((0, 2),)]),
    "rot90": (lambda x: x.rot90(1, (0, 1)), [((2, 3),), ((4, 1),), ((0, 2),)]),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 2), [((1, 4, 3, 2),), ((2, 4, 1, 5),)]),
    "cross": (lambda x, y: torch.linalg.cross(x, y), [((2, 3), (2, 3)), ((5, 3), (5, 3)), ((0, 3), (0, 3))]),
    "block_diag": (torch.block_diag, [((2, 3), (4, 5)), ((1, 1), (7, 2))]),
    "cartesian_prod": (torch.cartesian_prod, [((3,), (4,)), ((1,), (7,))]),
    "nanmean": (lambda x: x.log().nanmean(1), [((2, 3),), ((4, 9),), ((5, 1),)]),
    "float_power": (lambda x: torch.float_power(x.abs(), 1.5), [((2, 3),), ((4, 1),), ((0, 2),)]),
    "trapezoid": (lambda x: torch.trapezoid(x, dim=1), [((2, 3),), ((4, 9),), ((1, 2),)]),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), [((2, 3),), ((4, 9),), ((1, 1),)]),
    "erfinv": (lambda x: torch.special.erfinv(x.tanh()), [((2, 3),), ((4, 9),), ((1, 0),)]),
    "ndtr": (torch.special.ndtr, [((2, 3),), ((4, 9),), ((1, 0),)]),
    "a constant": (lambda x: x * torch.hann_window(5), [((2, 5),), ((4, 5),), ((0, 5),)]),
    "an imaginary factor": (
        lambda x: torch.view_as_real(torch.view_as_complex(x) * (2 - 1j)),
        [((3, 2),), ((1, 2),), ((0, 2),)],
    ),
}


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


@pytest.mark.parametrize("name", CASES)
def test_what_has_no_entry_is_compiled_as_its_steps(name, compile_module):
    function, shapes = CASES[name]
    torch.manual_seed(0)
    inputs = [tuple(torch.randn(shape) for shape in call) for call in shapes]
    compiled = compile_module(Function(function), inputs[0])
    for call in inputs:
        torch.testing.assert_close(compiled(*call), function(*call), rtol=1e-4, atol=1e-5, equal_nan=True)


def test_what_has_an_entry_stays_whole():
    captured = capture(torch.nn.LayerNorm(8), (torch.zeros(2, 8),), serves=bridge.serves)
    ops = {str(node.target) for node in captured.graph.nodes if node.op == "call_function"}
    assert ops == {"aten.layer_norm.default"}


def test_what_neither_side_knows_is_named():
    class Eigen(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eigvalsh(x)

    import disc

    with pytest.raises(disc.UnsupportedOp, match="eig"):
        disc.optimize(Eigen(), torch.eye(3))


def test_a_constant_is_small_and_the_same_each_time():
    aten = torch.ops.aten
    for op in (aten.from_file.default, aten.rand.default, aten.empty.memory_format):
        assert not _decompose.is_constant(op)
    assert _decompose.is_constant(aten.tril_indices.default)
    for size, is_folded in ((4, True), (1000, False)):
        module = Function(
            lambda x, size=size: (
                x + torch.tril_indices(size, size).shape[1] + torch.tril_indices(size, size)[0, -1]
            )
        )
        captured = capture(module, (torch.zeros(2),), serves=bridge.serves)
        ops = {str(node.target) for node in captured.graph.nodes if node.op == "call_function"}
        assert ("aten.tril_indices.default" in ops) != is_folded
