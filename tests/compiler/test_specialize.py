"""Versions for sizes that come often: same results, counted apart,
and none where they are not wanted.
"""

from __future__ import annotations

import os
import subprocess
import sys

import disc
import pytest
import torch
from disc import _disc
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(24, 40)
        self.outer = nn.Linear(40, 24)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(x)))


def optimized(module=None, *, dims=None, **options):
    module = Block().eval() if module is None else module
    with torch.no_grad():
        return disc.optimize(
            module, torch.randn(2, 3, 24), dims=dims, options=disc.Options(threads=1, **options)
        )


def report(fast):
    _disc.await_specializations()
    return disc.report(fast).to_dict()


def test_a_shape_that_comes_again_gets_a_version():
    fast = optimized(specialize="always")
    general = optimized(fast.original, specialize=False)
    x, other = torch.randn(4, 7, 24), torch.randn(5, 2, 24)
    assert torch.equal(fast(x), general(x))
    # The background thread takes no order at the moment when it takes a job: deferred functions.
    _disc.await_specializations()
    assert torch.equal(fast(x), general(x))
    values = report(fast)
    assert (values["compiles"], values["specializations"]) == (1, 1)
    assert torch.equal(fast(x), general(x))
    assert torch.equal(fast(other), general(other))
    assert torch.equal(fast(x.transpose(0, 1).contiguous().transpose(0, 1)), general(x))
    values = report(fast)
    (version,) = values["specialized"]["versions"]
    assert (version["hits"], values["specialized"]["hits"]) == (2, 2)
    assert version["code_bytes"] > 0
    assert version["weight_bytes"] == 0
    assert values["prepared_weight_bytes"] == report(general)["prepared_weight_bytes"]
    assert "specialised (" in str(disc.report(fast))


def test_weights_of_a_refresh_reach_the_versions():
    fast = optimized(specialize="always")
    x = torch.randn(4, 7, 24)
    fast(x), _disc.await_specializations(), fast(x)
    assert report(fast)["specializations"] == 1
    with torch.no_grad():
        fast.original.inner.weight.mul_(3)
    fast.refresh()
    torch.testing.assert_close(fast(x), fast.original(x))


@pytest.mark.parametrize("given", [{"specialize": False}, {"specialize": "always", "dims": "static"}])
def test_no_version_where_none_is_wanted_or_all_is_constant(given):
    fast = optimized(**given)
    for _ in range(4):
        fast(torch.randn(2, 3, 24))
    values = report(fast)
    assert (values["specializations"], values["specialized"]["versions"]) == (0, [])


def test_a_likely_size_has_its_version_after_one_call():
    dims = {"x": {0: "B", 1: disc.Dim("S", likely=[16])}}
    fast = optimized(dims=dims, specialize="always")
    fast(torch.randn(2, 16, 24))
    assert [one["dims"] for one in report(fast)["specialized"]["versions"]] == ["S = 16"]
    fast(torch.randn(9, 16, 24))
    assert report(fast)["specialized"]["hits"] == 1


def test_a_failing_call_fails_in_its_version_too():
    class Pick(nn.Module):
        def forward(self, x, i):
            return x[i]

    with torch.no_grad():
        fast = disc.optimize(
            Pick(), (torch.randn(6, 3), torch.tensor([1, 2])), options=disc.Options(specialize="always")
        )
    x, good, bad = torch.randn(5, 3), torch.tensor([0, 4, 2]), torch.tensor([0, 5, 2])
    fast(x, good), _disc.await_specializations(), fast(x, good)
    assert report(fast)["specialized"]["versions"]
    for _ in range(2):
        with pytest.raises(disc.Error) as caught:
            fast(x, bad)
        assert caught.value.code == "E0603"
        assert torch.equal(fast(x, good), x[good])


SCRIPT = """
import os, sys, torch, disc
from disc import _disc
class M(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
with torch.no_grad():
    fast = disc.optimize(M(), torch.randn(2, 3), options=disc.Options(specialize="always"))
x = torch.randn(4, 50)
{body}
print("done", disc.report(fast).to_dict()["specializations"])
"""


def run(body: str, **env: str) -> str:
    code = SCRIPT.format(body=body)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_environment_turns_it_off():
    body = "fast(x), _disc.await_specializations(), fast(x), _disc.await_specializations()"
    assert run(body) == "done 1"
    assert run(body, DISC_SPECIALIZE="0") == "done 0"


def test_a_process_may_end_while_the_background_compiles():
    assert run("[fast(torch.randn(n, 5)) for n in range(1, 9) for _ in range(2)]").startswith("done")


def test_a_forked_child_goes_on():
    body = """
fast(x), _disc.await_specializations(), fast(x), _disc.await_specializations()
child = os.fork()
if child == 0:
    y = torch.randn(2, 9)
    ok = torch.equal(fast(x), torch.softmax(x, -1)) or torch.allclose(fast(x), torch.softmax(x, -1))
    fast(y), fast(y), _disc.await_specializations()
    os._exit(0 if ok and disc.report(fast).to_dict()["specializations"] == 2 else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    assert run(body) == "done 1"
