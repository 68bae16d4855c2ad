"""Fourier transforms of lines of any length up to a bound: one compile, several sizes."""

from __future__ import annotations

import disc
import pytest
import torch
from disc.torch.lowering.fft import LONGEST
from model_check import Function, one_compile
from torch import fft

#: Of batch, rows and columns: odd, even, of one element.
SIZES = ((2, 7, 9), (1, 5, 5), (3, 8, 6), (2, 1, 13), (1, 1, 1), (2, 2, 12))

FUNCTIONS = {
    "half": lambda x: torch.view_as_real(fft.rfft(x)),
    "half of rows": lambda x: fft.rfft(x, dim=1, norm="ortho").abs(),
    "half, padded": lambda x: fft.rfft(x, n=16).angle().cos(),
    "all": lambda x: fft.fft(fft.fft(x, dim=-1), dim=-2).real,
    "planes": lambda x: fft.fftshift(fft.fft2(x, norm="forward")).abs(),
    "there and back": lambda x: torch.view_as_real(
        fft.ifft(fft.fft(x, norm="forward") * (2 - 1j), norm="forward")
    ),
    "planes and back": lambda x: fft.irfft2(fft.rfft2(x, norm="ortho"), s=x.shape[-2:], norm="ortho"),
    "sums": lambda x: torch.view_as_real(fft.fft(x) - 0.5 * fft.ifft(x) + x),
    "a convolution": lambda x: fft.irfft(
        fft.rfft(x, n=2 * x.shape[-1]) * fft.rfft(x[0], n=2 * x.shape[-1]).conj(), n=2 * x.shape[-1]
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_of_any_length(name, compile_module):
    calls = [((torch.randn(size),), {}) for size in SIZES]
    one_compile(compile_module, Function(FUNCTIONS[name]), calls, 5e-6)


def test_transforms_in_f64(compile_module):
    calls = [((torch.randn(size, dtype=torch.float64),), {}) for size in SIZES]
    one_compile(compile_module, Function(FUNCTIONS["half"]), calls, 1e-13)


def test_back_to_lines_of_even_length(compile_module):
    calls = [((torch.randn(2, n),), {}) for n in (9, 2, 8, 31)]
    one_compile(compile_module, Function(lambda x: fft.irfft(fft.rfft(x))), calls, 5e-6)


@pytest.mark.parametrize("transform", [fft.rfft, fft.fft, lambda x: fft.irfft(x + 0j)])
def test_lines_of_no_elements_are_refused_as_in_eager(transform):
    fast = disc.optimize(Function(lambda x: transform(x).abs()), (torch.randn(2, 8),))
    for function in (transform, fast):
        with pytest.raises(
            (RuntimeError, disc.DimError), match=r"number of data points|needs .* (>= 1|at least 2)"
        ):
            function(torch.randn(2, 0))


def test_sums_and_products_have_the_type_and_shape_of_both(compile_module):
    def combined(x, y):
        z, wide = torch.complex(x, y), torch.complex(x.double(), y.double())
        both = (z + wide, z * wide, z - y.double(), z * y.double(), z[0] + y, y[0] - z, z + y.double().sum())
        return [torch.view_as_real(result) for result in (*both, torch.add(z, wide, alpha=2j), z + 1)]

    calls = [((torch.randn(size), torch.randn(size)), {}) for size in ((4, 3), (1, 1), (1, 0), (7, 1))]
    one_compile(compile_module, Function(combined), calls, 1e-6)


def test_spectrograms(compile_module):
    window = torch.hann_window(16)

    def spectrum(x):
        return torch.stft(x, 16, 4, window=window, return_complex=True)[..., :-1].abs() ** 2

    calls = [((torch.randn(batch, n),), {}) for batch, n in ((2, 90), (1, 17), (3, 64))]
    one_compile(compile_module, Function(spectrum), calls, 5e-6)


def test_lines_that_are_too_long_are_named():
    fast = disc.optimize(Function(lambda x: fft.rfft(x).abs()), (torch.randn(1, 8),))
    with pytest.raises(disc.DimError, match=f"= {LONGEST + 1} .*<= {LONGEST}"):
        fast(torch.randn(1, LONGEST + 1))
    with pytest.raises(disc.UnsupportedOp, match=f"a transform over {LONGEST + 1} elements"):
        disc.optimize(Function(lambda x: fft.rfft(x, n=LONGEST + 1).abs()), (torch.randn(1, 8),))


def test_complex_results(compile_module):
    def function(x):
        spectrum = fft.fft(x)
        return {
            "twice": (spectrum, spectrum),
            "turned": torch.polar(x, x).mT,
            "one": torch.complex(x, x)[0, 0, 0],
        }

    calls = [((torch.randn(size),), {}) for size in SIZES]
    compiled = compile_module(Function(function), *calls[0])
    for (x,), _ in calls:
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-5, atol=1e-5)
    made = compiled(torch.randn(2, 3, 4))
    assert made["twice"][0].dtype == torch.complex64
