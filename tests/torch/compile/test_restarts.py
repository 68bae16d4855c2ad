"""Restarts of dynamo, which it asks for by an exception."""

from __future__ import annotations

import disc
import torch


def test_a_restart_reaches_dynamo(monkeypatch):
    from disc.torch.compile import backend
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis

    class Restarted:
        calls = 0

        def __call__(self, *args):
            self.calls += 1
            if self.calls == 1:
                raise TensorifyScalarRestartAnalysis
            return compiled(*args)

    compiled, restarted = backend._compiled, Restarted()
    monkeypatch.setattr(backend, "_compiled", restarted)
    torch._dynamo.reset()
    fast = torch.compile(torch.nn.Linear(4, 3).eval(), backend="disc")
    with torch.no_grad():
        fast(torch.randn(2, 4))
    assert restarted.calls == 2
    assert disc.report(fast).to_dict()["fallbacks"] == []
