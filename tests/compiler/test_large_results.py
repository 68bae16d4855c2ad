"""Results that are larger than the caches are written past them, by two threads: the same results,
whatever the rows are.
"""

import disc
import pytest
import torch
import torch.nn.functional as F
from model_check import Function

# 70 MB are read and written for one input; rows of whole lines, of no lines, and few elements
# beside them.
SHAPES = [(8600, 1024), (8600, 1030), (66000, 128), (5, 1024)]
FUNCTIONS = {
    "sum of two": (lambda x, y: x + y, 2),
    "softmax": (lambda x: torch.softmax(x, -1), 1),
    "norm and what it is of": (lambda x, y: (x * y, F.layer_norm(x * y, (x.shape[-1],))), 2),
    "row added": (lambda x, y: x + y[:1], 2),
    "half, truth, sums": (lambda x: (x.to(torch.bfloat16), x > 0, x.sum(-1)), 1),
    "joined": (lambda x, y: torch.cat([x, -y], -1), 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_large_results_are_those_of_eager(name):
    function, count = FUNCTIONS[name]
    torch.manual_seed(3)
    with disc.Options(threads=2):
        compiled = disc.optimize(Function(function).eval(), tuple(torch.randn(7, 96) for _ in range(count)))
    for shape in SHAPES:
        tensors = [torch.randn(shape) for _ in range(count)]
        found, expected = compiled(*tensors), function(*tensors)
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
