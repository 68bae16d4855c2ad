"""Exports models as packages with code for this machine and for AArch64: `make test-aarch64`.

usage: python scripts/aarch64_packages.py FOLDER

The test `aarch64` of crates/disc runs them under qemu. Weights are random.
"""

from __future__ import annotations

import sys
import time
from itertools import chain
from pathlib import Path

import disc
import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent.parent / "benches"))
from bert import Encoder
from streams import Conformer, DecoderStep, ResNet50

#: Those of crates/disc/tests/aarch64/target.rs.
TARGETS = [
    "aarch64-v8",
    "aarch64-v8+dotprod+fp16",
    "aarch64-v8+bf16+dotprod+fp16+i8mm+sve",
    "aarch64-v8+bf16+dotprod+fp16+i8mm+sve256",
    "aarch64-v8+bf16+dotprod+fp16+i8mm+sve2+sve512",
]
BERT = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512}
LAYERS, HEADS = 2, 4


class Decoder(nn.Module):
    """One token through layers like those of GPT-2, with a cache that grows."""

    def __init__(self, width: int = 128):
        super().__init__()
        self.step = DecoderStep(width, LAYERS, HEADS)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        return self.step(x, *chain(*zip(keys.unbind(), values.unbind(), strict=True)))


def models():
    """Yields name, model, example and names of sizes."""
    tokens = torch.randint(0, 50, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    text = {"ids": {0: "B", 1: "S"}, "mask": {0: "B", 1: "S"}}
    for name, dtype in (("bert", torch.float32), ("bert_bf16", torch.bfloat16)):
        yield name, Encoder(vocab_size=1000, **BERT).to(dtype), tokens, text
    yield "conformer", Conformer(96), (torch.randn(2, 80, 50),), {"sound": {0: "B", 2: "T"}}
    yield "resnet50", ResNet50(), (torch.randn(2, 3, 40, 48),), {"pixels": {0: "B", 2: "H", 3: "W"}}
    keys, values = (torch.randn(LAYERS, 2, HEADS, 9, 32) for _ in range(2))
    cache = {1: "B", 3: "P"}
    yield (
        "decoder",
        Decoder(),
        (torch.randn(2, 1, 128), keys, values),
        {"x": {0: "B", 1: "T"}, "keys": cache, "values": cache},
    )


def export(folder: Path, name: str, model: nn.Module, example: tuple, dims: dict) -> Path:
    """Writes the package of a model with code for this machine and all of :data:`TARGETS`."""
    here = disc.load(disc.export(nn.Linear(1, 1), (torch.ones(1, 1),))).target
    path = folder / f"{name}.discpkg"
    disc.export(model.eval(), example, path, dims=dims, target=[here, *TARGETS], prepared=False)
    return path


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name, model, example, dims in models():
        start = time.monotonic()
        path = export(folder, name, model, example, dims)
        print(
            f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {time.monotonic() - start:.1f} s", flush=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
