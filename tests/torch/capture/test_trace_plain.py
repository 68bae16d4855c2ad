"""Compares rules of the quick tracer with torch: types, sizes, order in memory, views, copies."""

from __future__ import annotations

import disc
import pytest
import torch
from disc.torch.capture.entry import Entry
from disc.torch.capture.function_caches import FunctionCaches
from disc.torch.overrides.registry import overridden
from disc.torch.pytree.arguments import flatten_arguments
from disc.torch.tracer import fake_rules, fake_views, tracer
from disc.torch.tracer.fake_overrides import SHAPES
from torch import nn
from torch.nn import functional as F


class Elements(nn.Module):
    def forward(self, x, y):
        turned = x.permute(0, 2, 3, 1)
        part = x[:, :, 1:]
        mask = (x > 0) & ~(x > 1)
        a = F.gelu(turned) * 2 + x.shape[2] + y.view(-1)
        b = torch.where(mask, x, x.masked_fill(mask, 0.5)).to(torch.float64)
        return a, b, part.sigmoid(), torch.maximum(x, y.view(1, 5, 1, 1)) ** 2, turned <= turned.exp()


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(5, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.group, self.last = nn.BatchNorm2d(8), nn.GroupNorm(2, 8), nn.LayerNorm(8)

    def forward(self, x, y):
        x = F.dropout(self.norm(self.a(x)), 0.5, self.training)
        tokens = self.last(x.flatten(2).transpose(1, 2))
        b, n, c = tokens.shape
        # Channels are last here.
        image = tokens.transpose(1, 2).reshape(b, c, *x.shape[2:])
        image = self.b(image) + self.norm(image)
        rows = F.interpolate(self.group(x), scale_factor=2, mode="bilinear") + 1
        grid = torch.tanh(image[:, :2].permute(0, 2, 3, 1))
        heads = tokens.view(b, n, 2, 4).transpose(1, 2)
        scores = (heads @ heads.transpose(-2, -1)).softmax(-1) @ heads
        tokens = scores.transpose(1, 2).reshape(b, -1, c).flatten(0, 1).view(b, -1, 2, c // 2)
        return image.flatten(2), rows, F.grid_sample(x, grid), tokens


class Rows(nn.Module):
    def forward(self, x, y):
        x = x.flatten(2)
        joined = torch.cat([x, x * 2], 1)
        first = joined[:1].exp()
        return first, joined.mean([1, -1]), torch.stack([x, x], 2).sum([0], True), x.roll([1], [2]).cumsum(-1)


class Others(nn.Module):
    """Rules that the modules above have no use for."""

    def __init__(self):
        super().__init__()
        self.line, self.volume, self.inner = (
            nn.Conv1d(5, 4, 3),
            nn.Conv3d(1, 2, 3, padding=1),
            nn.Linear(5, 6),
        )

    def forward(self, x, y):
        rows = F.rms_norm(self.inner(x.transpose(1, 3)), (6,)).log_softmax(-1)
        volume = self.volume(x.reshape(-1, 1, 5, *x.shape[2:]))
        return rows, self.line(x.flatten(2)), volume, torch.concat([x, x], 3), x.transpose(1, 2).contiguous()


def test_what_is_known_is_what_torch_says(monkeypatch):
    known: list = []
    rules = fake_rules.PlainResults.of

    def compared(self, func, args, kwargs, tensors, lying):
        found = rules(self, func, args, kwargs, tensors, lying)
        if found is not None:
            out = SHAPES.get(func, func)(*args, **kwargs)
            dtype, shape, order, is_view = found
            assert out.dtype == dtype, func
            assert fake_views.alike(out.shape, shape), func
            assert self.lying(out) == fake_views.Lying(order), func
            assert tracer._one_storage(out, tensors[0]) == is_view, func
            known.append(func)
        return found

    monkeypatch.setattr(fake_rules.PlainResults, "of", compared)
    met: set = set()
    for make in (Elements, Images, Rows, Others):
        torch.manual_seed(0)
        known.clear()
        arguments, tensors = flatten_arguments(make(), (torch.rand(3, 5, 12, 14), torch.rand(5)), {})
        module = make().eval()
        entry = Entry(module, arguments, FunctionCaches(module))
        with torch.no_grad(), overridden("capture"):
            tracer.trace(entry, tensors, lambda i, axis: i == 0 and axis != 1, True)
        assert len(set(known)) >= 8
        met.update(known)
    rules_but_elements = {*fake_rules.VIEWS, *fake_rules.ANYHOW, *fake_rules.IN_ORDER}
    assert not {str(op) for op in rules_but_elements - met}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.flatten(0, 5),
        lambda x: x.flatten(-5, 1),
        lambda x: x.softmax(5),
        lambda x: x.log_softmax(-4),
        lambda x: x.cumsum(3),
        lambda x: x.sum([3]),
        lambda x: x.transpose(0, 3),
        lambda x: x.masked_fill(x, 0.0),
    ],
)
def test_what_torch_refuses_is_left_to_torch(wrong):
    class Wrong(nn.Module):
        def forward(self, x):
            return wrong(x)

    with pytest.raises(disc.Error, match=r"out of range|expected predicate to be bool"):
        disc.optimize(Wrong(), torch.rand(2, 3, 4))


class Scaled(nn.Module):
    def forward(self, x):
        return torch.linspace(0.5, x.shape[0] - 0.5, x.shape[0]), torch.linspace(-1, 1, 2 * x.shape[1] + 1)


def test_linspace_follows_sizes(compile_module):
    compiled = compile_module(Scaled(), (torch.rand(6, 7),))
    for shape in ((6, 7), (0, 1), (1, 0), (2, 3), (101, 64)):
        x = torch.rand(shape)
        for ours, eager in zip(compiled(x), Scaled()(x), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-6, atol=1e-6)
