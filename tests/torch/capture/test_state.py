"""Modules that keep state from call to call: refused where a result depends on it,
and left as they were in any case.
"""

import collections

import disc
import pytest
import torch
from torch import nn


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.register_buffer("table", None)
        self.mean = torch.zeros(())
        self.last = None
        self.calls = 0
        self.cache = []
        self.counts = {"calls": [0]}
        self.recent = collections.deque(maxlen=2)


class AssignsBuffer(Keeps):
    def forward(self, x):
        self.n = self.n + 1
        return x + self.n


class AssignsBufferUnread(Keeps):
    def forward(self, x):
        self.n = x.sum()
        return x * 2


class AssignsTensor(Keeps):
    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean()
        return x - self.mean


class Counts(Keeps):
    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Appends(Keeps):
    def forward(self, x):
        self.cache.append(x)
        return sum(self.cache)


class CountsInside(Keeps):
    def forward(self, x):
        self.counts["calls"][0] += 1
        return x * self.counts["calls"][0]


class Recent(Keeps):
    def forward(self, x):
        self.recent.append(x)
        return torch.stack(list(self.recent))


class Previous(Keeps):
    def forward(self, x):
        before, self.last = self.last, x
        return x if before is None else x + before


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Counts()

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (AssignsTensor, r"attribute mean \(test_state.py:\d+: `self.mean = "),
        (Counts, r"attribute calls \(test_state.py:\d+: `self.calls \+= 1`\)"),
        (Appends, r"attribute cache \(test_state.py:\d+: `self.cache.append\(x\)`\)"),
        (CountsInside, r"attribute counts \(test_state.py:\d+: "),
        (Recent, r"attribute recent \(test_state.py:\d+: "),
        (Previous, r"attribute last \(test_state.py:\d+: `before, self.last = self.last, x`\)"),
        (Inner, r"attribute inner.calls \("),
    ],
)
@pytest.mark.parametrize("exported", [False, True])
def test_state_that_results_depend_on_is_refused_with_its_name_and_line(kind, named, exported, monkeypatch):
    if exported:
        monkeypatch.setattr("disc.torch.capture.capture.quick", _fails)
    module = kind().eval()
    before = _held(module)
    with pytest.raises(disc.Error, match=named) as caught:
        disc.optimize(module, torch.rand(3))
    assert caught.value.code == "E0405"
    assert _held(module) == before


@pytest.mark.parametrize("kind", [AssignsBuffer, AssignsBufferUnread])
@pytest.mark.parametrize("exported", [False, True])
def test_buffers_are_assigned_as_in_eager(kind, exported, monkeypatch):
    if exported:
        monkeypatch.setattr("disc.torch.capture.capture.quick", _fails)
    module, eager = kind().eval(), kind().eval()
    before = _held(module)
    compiled = disc.optimize(module, torch.rand(3))
    assert _held(module) == before
    for n in (0, 1, 5):
        x = torch.rand(n)
        assert torch.equal(compiled(x), eager(x))
        assert torch.allclose(module.n, eager.n)


def _fails(*args, **kwargs):
    raise RuntimeError


def _held(module):
    """Returns the contents of a module, with copies of its containers."""
    return [
        {name: repr(value) for name, value in vars(m).items() if not name.startswith("_")}
        | {name: id(t) for name, t in m._buffers.items()}
        for m in module.modules()
    ]


class Notes(Keeps):
    """Notes that nobody reads, and tables that are made once."""

    def forward(self, x):
        self.last = x * 2
        self.size = x.shape[0]
        self.calls += 1
        self.cache.append(x.shape[0])
        if self.table is None:
            self.table = torch.arange(3.0)
        if not hasattr(self, "prepared"):
            self.prepared = True
        if not self.recent:
            self.recent.append(torch.ones(3))
        return x * self.table + self.recent[0]


@pytest.mark.parametrize("n", [0, 1, 4])
def test_state_that_changes_no_result_is_served_and_left_as_it_was(n):
    module = Notes().eval()
    before = _held(module)
    compiled = disc.optimize(module, torch.rand(2, 3))
    assert vars(module).pop("prepared")
    assert _held(module) == before
    x = torch.rand(n, 3)
    torch.testing.assert_close(compiled(x), module(x))
    torch.testing.assert_close(compiled(x), module(x))


class Converts(Keeps):
    """A buffer that is replaced by itself, or by what is equal to it."""

    def forward(self, x):
        self.n = self.n.to(x.device)
        self.n = self.n.clone()
        return x + self.n


def test_a_buffer_that_is_assigned_what_it_is_changes_nothing():
    module = Converts().eval()
    before = module.n
    compiled = disc.optimize(module, torch.rand(3))
    assert module.n is before
    before.fill_(2)
    compiled.refresh()
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 3.0))
