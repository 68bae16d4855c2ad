"""Writes two programs over one table of weights into a package, and runs them with only NumPy."""

import os
import tempfile

import disc
import numpy as np
import torch
from torch import nn


class Encoder(nn.Module):
    """Words to a vector."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2000, 64)
        self.mix = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.mix(self.table(words)).mean(1)


class Likeness(nn.Module):
    """Compares two texts, with the encoder of the other program."""

    def __init__(self, encoder: Encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return nn.functional.cosine_similarity(self.encoder(one), self.encoder(other))


torch.manual_seed(0)
encoder = Encoder().eval()
likeness = Likeness(encoder).eval()
words = torch.randint(2000, (2, 7))

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "texts.discpkg")
    entries = {"encode": (encoder, (words,)), "likeness": (likeness, (words, words))}
    disc.export(entries, path, prepared=False)
    weights = sum(p.numel() * p.element_size() for p in encoder.parameters())
    print(f"{os.path.getsize(path) // 1024} KiB, of which {weights // 1024} KiB are weights")
    assert os.path.getsize(path) < 2 * weights

    package = disc.load(path)
    for name, entry in package.entries.items():
        print(name, [(port.name, port.dtype, list(port.dims)) for port in entry.inputs])
    for batch, length in ((1, 3), (5, 40)):
        one = np.random.default_rng(0).integers(0, 2000, (batch, length))
        other = one[:, ::-1] // 2
        with torch.no_grad():
            expected = likeness(torch.tensor(one), torch.tensor(other.copy())).numpy()
            vectors = encoder(torch.tensor(one)).numpy()
        np.testing.assert_allclose(package["likeness"](one, other), expected, atol=1e-5)
        np.testing.assert_allclose(package["encode"](one), vectors, atol=1e-5)
        print(f"{batch} text(s) of {length} words: likeness {expected.round(3).tolist()}")
