"""``Options(library=)``: products by oneDNN where it is installed; without it,
and where nobody asks, by generated kernels.
"""

from __future__ import annotations

import ctypes

import disc
import pytest
import torch


def _is_installed() -> bool:
    for name in ("libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


needs_library = pytest.mark.skipif(
    not _is_installed(), reason="oneDNN is not installed (Debian: libdnnl3 or libdnnl2)"
)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(48, 130)
        self.down = torch.nn.Linear(130, 48)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def _optimize(module, **options):
    return disc.optimize(module, torch.randn(3, 48), options=disc.Options(**options))


def _agree(module, fast):
    for rows in (0, 1, 2, 13, 64, 200):
        x = torch.randn(rows, 48)
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)


@needs_library
@pytest.mark.parametrize("threads", [1, 2])
def test_the_library_by_name_computes_products(threads):
    module = Layers().eval()
    fast = _optimize(module, library="onednn", threads=threads)
    with torch.no_grad():
        _agree(module, fast)
    library = disc.report(fast).to_dict()["library"]
    assert library["name"].startswith("oneDNN")
    assert library["policy"] == "always"
    assert library["by_library"] >= 2 * 5
    assert "library     oneDNN" in str(disc.report(fast))


@needs_library
def test_auto_measures_and_reports(tmp_path, monkeypatch):
    monkeypatch.setenv("DISC_CACHE", "1")
    monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path / "cache"))
    module = Layers().eval()
    fast = _optimize(module, library="auto", threads=1)
    with torch.no_grad():
        _agree(module, fast)
        for _ in range(8):
            fast(torch.randn(13, 48))
    library = disc.report(fast).to_dict()["library"]
    assert library["policy"] == "measured"
    choices = {(one["rows_up_to"], one["columns"], one["sums"]): one for one in library["choices"]}
    assert {(16, 130, 48), (16, 48, 130)} <= choices.keys()
    for one in choices.values():
        assert (one["dtype"], one["threads"]) == ("f32", 1)
        assert min(one["kernel_ns_per_row"], one["library_ns_per_row"]) > 0
        faster = one["library_ns_per_row"] < 0.97 * one["kernel_ns_per_row"]
        assert one["choice"] == ("library" if faster else "kernel")
    assert len(list((tmp_path / "cache" / "choices").iterdir())) == 1


def test_kernels_are_the_default():
    fast = _optimize(Layers().eval())
    assert disc.report(fast).to_dict()["library"] == {"name": None}


def test_auto_without_a_library_is_no_error():
    module = Layers().eval()
    fast = _optimize(module, library="auto", threads=1)
    with torch.no_grad():
        _agree(module, fast)


def test_a_library_by_name_that_is_not_there_is_an_error():
    with pytest.raises(disc.Error, match=r"oneDNN was asked for.*/nowhere/libdnnl\.so"):
        _optimize(Layers().eval(), library="onednn:/nowhere/libdnnl.so")


@pytest.mark.parametrize("value", ["mkl", "auto:x", "onednn:", 1, ""])
def test_values_that_name_no_library(value):
    with pytest.raises(disc.Error, match=r"Options\.library"):
        disc.Options(library=value)
