"""Functions of torch whose arguments torch reads as plain numbers,
in terms of others that leave a size open.

``F.one_hot(x, y.shape[0])``, ``F.max_pool1d(x, x.size(2))`` or ``torch.triu_indices(n, n)`` would
fix the size of the example. Each function here gives what the replaced one gives, or nothing where
it has no other way. Some are replaced by others that say more of their shapes.
"""

from __future__ import annotations

import math

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode

from ...core.errors import Error
from ...lowering.sizes import spread
from ..decompositions.triangles import tril_indices, triu_indices
from ..symbolic.expressions import expression, has_symbol
from .squeeze import squeezed


class SymbolicFunctions(TorchFunctionMode):
    """Sees each function with its arguments, before torch makes numbers of them."""

    def __init__(self):
        super().__init__()
        #: A function gave a copy where torch gives a view.
        self._is_copied = False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.__getitem__:
            args = args[0], _without_tensors(args[1])
        elif func in _NARROWS and isinstance(args[2:] and args[2], torch.Tensor):
            args = *args[:2], args[2].item(), *args[3:]
        elif func is torch._is_all_true:
            # The check of torch.distributions, which raises an error otherwise: it is one of the
            # call.
            torch._assert_async(
                args[0].all(), "a parameter or value of a distribution is outside its support"
            )
            return True
        name = getattr(func, "__name__", "")
        if self._is_copied and _writes(name, kwargs):
            raise Error(
                f"{name} changes a tensor in place, beside windows of `unfold` whose size is computed from"
                " sizes: they are a copy here",
                code="E0405",
                help="clone the tensor before writing",
            )
        if name in _BY_SHAPE and (found := _BY_SHAPE[name](*args, **kwargs)) is not None:
            return found
        if has_symbol((*args, *kwargs.values())):
            replaced = _REPLACED.get(name)
            found = replaced(*args, **kwargs) if replaced is not None else None
            if found is not None:
                self._is_copied |= name == "unfold" and not _parts_of_all(*args, **kwargs)
                return found
        return func(*args, **kwargs)


def _writes(name: str, kwargs: dict) -> bool:
    """Returns true for a function of torch that writes to a tensor that it is given."""
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in _READS)
    return name.endswith("_") or kwargs.get("out") is not None


#: Methods of Python that begin as those in place do.
_READS = frozenset(("__invert__", "__index__", "__int__", "__init__", "__iter__"))


_NARROWS = (torch.narrow, torch.Tensor.narrow)


def _equal_bags(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """``embedding_bag`` of a matrix, whose rows are bags of one length: torch flattens it,
    and counts where they begin.

    Nothing for arguments that torch refuses, so that it says why.
    """
    if input.dim() != 2 or offsets is not None or max_norm is not None or mode not in ("sum", "mean", "max"):
        return None
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        return None
    scales = per_sample_weights
    if scales is not None and (mode != "sum" or scales.dtype != weight.dtype or scales.shape != input.shape):
        return None
    rows = torch.nn.functional.embedding(input, weight)
    if scales is not None:
        rows = rows * scales.unsqueeze(-1)
    held = input.shape[1]
    if padding_idx is not None:
        counted = (input != padding_idx % weight.shape[0]).unsqueeze(-1)
        rows = rows.masked_fill(~counted, -torch.inf if mode == "max" else 0.0)
        held = counted.sum(1)
    if mode == "max":
        most = rows.amax(1)
        return most if padding_idx is None else torch.where(held > 0, most, torch.zeros_like(most))
    total = rows.sum(1)
    if mode == "mean":
        total = total / (held if padding_idx is None else held.clamp(min=1))
    return total


def _without_tensors(index):
    """Bounds of slices that are tensors: torch would make numbers of them,
    where ``item`` may know an expression of sizes.
    """
    if isinstance(index, tuple):
        return tuple(map(_without_tensors, index))
    if not isinstance(index, slice):
        return index
    bounds = index.start, index.stop, index.step
    return slice(*(b.item() if isinstance(b, torch.Tensor) else b for b in bounds))


def _tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    return torch._refs.tensor(data, dtype=dtype, device=device)


def _as_tensor(data, dtype=None, device=None):
    return _tensor(data, dtype=dtype, device=device)


def _linspace(start, end, steps=100, *, dtype=None, device=None, **_):
    """Both halves from their own end, as torch computes them."""
    dtype = dtype or torch.get_default_dtype()
    if (
        not isinstance(steps, torch.SymInt)
        or isinstance(start, torch.Tensor)
        or isinstance(end, torch.Tensor)
    ):
        return None
    if not dtype.is_floating_point:
        return None
    place = torch.arange(steps, device=device)
    start, end, parts = (torch.full((), x, dtype=dtype) for x in (start, end, torch.sym_max(steps - 1, 1)))
    step = (end - start) / parts
    low, high = place.to(dtype), (steps - 1 - place).to(dtype)
    return torch.where(place < torch.sym_max(steps // 2, 1), start + step * low, end - step * high)


def _logspace(start, end, steps=100, base=10.0, *, dtype=None, device=None, **_):
    exponents = _linspace(start, end, steps, dtype=dtype, device=device)
    return None if exponents is None else torch.pow(base, exponents)


def _one_hot(input, num_classes=-1):
    torch._assert_async((input >= 0).all(), "Class values must be non-negative.")
    torch._assert_async((input < num_classes).all(), "Class values must be smaller than num_classes.")
    classes = torch.arange(num_classes, device=input.device)
    return (input.unsqueeze(-1) == classes).to(torch.int64)


def _parts_of_all(self, dimension, size, step) -> bool:
    """Returns true if windows do not overlap, and nothing is between them."""
    return expression(size) == expression(step)


def _unfold(self, dimension, size, step):
    """Windows along an axis: a view where they do not overlap, else a copy."""
    axis = dimension % self.dim()
    count = (self.shape[axis] - size) // step + 1
    if _parts_of_all(self, dimension, size, step):
        parts = self[(*[slice(None)] * axis, slice(0, count * size))]
        rest = range(axis + 2, self.dim() + 1)
        return parts.unflatten(axis, (count, size)).permute(*range(axis + 1), *rest, axis + 1)
    starts = torch.arange(count, device=self.device) * step
    places = starts.unsqueeze(1) + torch.arange(size, device=self.device)
    windows = self.index_select(axis, places.flatten()).unflatten(axis, (count, size))
    return windows.movedim(axis + 1, -1)


def _adaptive_avg_pool1d(input, output_size):
    size = output_size[0] if isinstance(output_size, (list, tuple)) else output_size
    return torch.nn.functional.adaptive_avg_pool2d(input.unsqueeze(-2), (1, size)).squeeze(-2)


def _adaptive_max_pool(n: int):
    """Each cell of an axis takes the largest of its part, axis after axis."""

    def entry(input, output_size, return_indices=False):
        if return_indices:
            return None
        for i, out in enumerate(spread(output_size, n), input.dim() - n):
            if out is not None:
                input = _largest_parts(input, i, out)
        return input

    return entry


def _largest_parts(x, axis: int, out):
    size = x.shape[axis]
    cell, place = torch.arange(out).unsqueeze(1), torch.arange(size)
    inside = (place >= cell * size // out) & (place < ((cell + 1) * size + (out - 1)) // out)
    inside = inside.reshape([out, size, *[1] * (x.dim() - 1 - axis)])
    lowest = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    return torch.where(inside, x.unsqueeze(axis), lowest).amax(axis + 1)


def _diagonal(input, offset=0, dim1=0, dim2=1):
    """The main diagonal of a part, which is a view as torch's is."""
    if not isinstance(offset, torch.SymInt):
        return None
    row, column = torch.sym_max(-offset, 0), torch.sym_max(offset, 0)
    count = torch.sym_max(torch.sym_min(input.shape[dim1] - row, input.shape[dim2] - column), 0)
    part = [slice(None)] * input.dim()
    part[dim1], part[dim2] = slice(row, row + count), slice(column, column + count)
    return input[tuple(part)].diagonal(0, dim1, dim2)


def _diag(input, diagonal=0):
    return _diagonal(input, diagonal) if input.dim() == 2 else None


def _conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """As many groups as a size says (a batch whose images have kernels of their own):
    products with all windows.
    """
    padding = 0 if padding == "valid" else padding
    if not isinstance(groups, torch.SymInt) or isinstance(padding, str) or input.dim() != 4:
        return None
    per_group, *kernel = weight.shape[1:]
    forms = [[int(n) for n in spread(value, 2)] for value in (kernel, stride, padding, dilation)]
    kernel, stride, padding, dilation = forms
    parts = input.reshape([input.shape[0] * groups, per_group, *input.shape[2:]])
    windows = torch.nn.functional.unfold(parts, kernel, dilation, padding, stride)
    windows = windows.reshape([input.shape[0], groups, *windows.shape[1:]])
    product = weight.reshape([groups, weight.shape[0] // groups, -1]) @ windows
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(input.shape[2:], *forms, strict=True)
    ]
    result = product.reshape([input.shape[0], weight.shape[0], *sizes])
    return result if bias is None else result + bias.reshape([-1, 1, 1])


# Windows and frequencies of transforms.


def _window(length, periodic, factors, dtype=None, device=None, **_):
    """A sum of cosines over the window: ``factors`` are of no turn, one, two."""
    place = torch.arange(length, device=device)
    turn = length if periodic else torch.sym_max(length - 1, 1)
    angle = place.to(dtype or torch.get_default_dtype()) * (2 * math.pi / turn)
    window = sum(factor * torch.cos(angle * i) for i, factor in enumerate(factors))
    # A window of one element is 1.
    return torch.where(place + length == 1, 1.0, window)


def _hann_window(window_length, periodic=True, **options):
    return _window(window_length, periodic, (0.5, -0.5), **options)


def _hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, **options):
    return _window(window_length, periodic, (alpha, -beta), **options)


def _blackman_window(window_length, periodic=True, **options):
    return _window(window_length, periodic, (0.42, -0.5, 0.08), **options)


def _fftfreq(n, d=1.0, *, dtype=None, device=None, **_):
    place = torch.arange(n, device=device)
    place = torch.where(place < (n + 1) // 2, place, place - n)
    return place.to(dtype or torch.get_default_dtype()) / (n * d)


def _rfftfreq(n, d=1.0, *, dtype=None, device=None, **_):
    return torch.arange(n // 2 + 1, device=device).to(dtype or torch.get_default_dtype()) / (n * d)


# Pools over a whole axis.


def _pool(name: str, n: int, whole):
    def entry(input, kernel_size, stride=None, padding=0, *more, return_indices=False, **options):
        if return_indices or options.get("divisor_override") is not None or (name == "avg" and len(more) > 2):
            return None
        kernel, padding = spread(kernel_size, n), spread(padding, n)
        stride = kernel if stride is None or stride in ((), []) else spread(stride, n)
        rest = input
        for i in range(n):
            if not isinstance(kernel[i], torch.SymInt):
                continue
            axis = input.dim() - n + i
            if padding[i] != 0 or not statically_known_true(kernel[i] == input.shape[axis]):
                return None
            rest = whole(rest, axis)
            kernel[i] = stride[i] = 1
        if has_symbol(kernel) or has_symbol(stride):
            return None
        if kernel == stride == [1] * n and padding == [0] * n:
            return rest
        pool = getattr(torch.nn.functional, f"{name}_pool{n}d")
        return pool(rest, kernel, stride, padding, *more, **options)

    return entry


def _largest(x, axis: int):
    return x.amax(axis, keepdim=True)


def _average(x, axis: int):
    return x.mean(axis, keepdim=True)


#: Functions that are replaced for the shapes of their arguments.
_BY_SHAPE = {"squeeze": squeezed, "embedding_bag": _equal_bags}

#: Functions that are replaced where a number is a symbol.
_REPLACED = {
    "tensor": _tensor,
    "as_tensor": _as_tensor,
    "linspace": _linspace,
    "one_hot": _one_hot,
    "unfold": _unfold,
    "logspace": _logspace,
    "adaptive_avg_pool1d": _adaptive_avg_pool1d,
    **{f"adaptive_max_pool{n}d": _adaptive_max_pool(n) for n in (1, 2, 3)},
    "diag": _diag,
    "diagonal": _diagonal,
    "conv2d": _conv2d,
    "hann_window": _hann_window,
    "hamming_window": _hamming_window,
    "blackman_window": _blackman_window,
    "fft_fftfreq": _fftfreq,
    "fft_rfftfreq": _rfftfreq,
    "triu_indices": triu_indices,
    "tril_indices": tril_indices,
    **{f"max_pool{n}d": _pool("max", n, _largest) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _pool("avg", n, _average) for n in (1, 2, 3)},
}
