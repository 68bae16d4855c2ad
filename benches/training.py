"""Steps of training: the loss of a batch and the gradients of all parameters, at batches and
lengths that change.

Models are those that tests train, wide enough that products count. `AdamW` is the step of an
optimizer over 200 tensors.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from case import Case
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

LENGTHS = ((4, 16), (8, 24), (3, 40), (6, 64), (2, 100), (5, 128))


class Step(nn.Module):
    """The loss of a model, whose result ``loss`` takes, and the gradients of its parameters."""

    def __init__(self, model: nn.Module, loss: Callable, run: Callable | None = None):
        super().__init__()
        self.model, self.loss, self.run = model, loss, model if run is None else run

    def forward(self, *inputs):
        with torch.enable_grad():
            loss = self.loss(self.run(*inputs))
            found = torch.autograd.grad(loss, list(self.model.parameters()))
            # In one tensor: errors are measured by the largest gradient, as some are zero but for
            # rounding.
            return loss.detach(), torch.cat([gradient.flatten() for gradient in found])

    def compiled(self, compile: Callable) -> Step:
        """The step of a model that ``compile`` compiles."""
        # Every contestant sees the same statistics of a batch norm.
        model = copy.deepcopy(self.model)
        return Step(model, self.loss, compile(model))


class Update(nn.Module):
    """The step of AdamW over tensors, whose gradients stay."""

    def __init__(self, shapes: list[tuple[int, ...]]):
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(shape) for shape in shapes])
        self.optimizer = torch.optim.AdamW(self.weights, foreach=True)
        self.step = self.optimizer.step
        for weight in self.weights:
            weight.grad = torch.randn_like(weight)

    def forward(self, x: Tensor):
        self.step()
        return x

    def compiled(self, compile: Callable) -> Update:
        made = Update([tuple(weight.shape) for weight in self.weights])
        optimizer = made.optimizer

        def step():
            optimizer.step()

        made.step = compile(step)
        return made


def cases() -> Iterator[Case]:
    """The models, each with its stream of distinct shapes."""
    from training_models import Conformer, ConvNet, Decoder, bert, classes

    def perceptron():
        layers = [nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 512), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(512, 10))

    def tokens(batch, length):
        return (torch.randint(0, 1000, (batch, length)),)

    rows = tuple((size,) for size in (16, 24, 48, 100, 200, 256))
    yield Case("perceptron", Step(perceptron(), classes), rows, lambda n: (torch.randn(n, 256),))
    images = ((4, 32, 40), (6, 40, 48), (8, 48, 56), (5, 64, 48), (10, 32, 36))
    yield Case("convnet", Step(ConvNet(), classes), images, lambda n, h, w: (torch.randn(n, 3, h, w),))
    yield Case("bert", Step(bert(256, 4, 1024, 1000), lambda result: classes(result.logits)), LENGTHS, tokens)
    decoder = Decoder(words=1000, width=256, layers=4)
    yield Case("decoder", Step(decoder, classes), LENGTHS, tokens)
    conformer = nn.Sequential(*(Conformer(width=128) for _ in range(2)))
    signal = lambda batch, length: (torch.randn(batch, length, 128),)
    yield Case("conformer", Step(conformer, lambda y: y.square().mean()), LENGTHS, signal)
    shapes = [(64 + 8 * (i % 9), 32 + 16 * (i % 5)) if i % 2 else (64 + 8 * (i % 9),) for i in range(200)]
    yield Case("AdamW, 200 tensors", Update(shapes), ((1,),), lambda n: (torch.zeros(n),))
