"""Calls of executables: how tensors are read and made, what is refused,
and that nothing leaks or breaks.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import disc
import numpy as np
import pytest
import torch
from disc import _disc

from native.entries import load

TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
}
NUMPY = {
    name: getattr(np, str(dtype).removeprefix("torch.")) for name, dtype in TORCH.items() if name != "bf16"
}
copy = {name: load("copy", name, rank=2) for name in TORCH}


def refused(executable, inputs, kind=disc.Error) -> disc.Error:
    with pytest.raises(kind) as caught:
        executable(inputs)
    # The next call works.
    good = torch.ones(2, 2)
    assert torch.equal(copy["f32"]([good])[0], good)
    return caught.value


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 1), (1, 1000)])
def test_torch_tensors_of_every_type_go_through(dtype, shape):
    x = torch.arange(shape[0] * shape[1]).reshape(shape).to(TORCH[dtype])
    (y,) = copy[dtype]((x,))
    assert type(y) is torch.Tensor
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    assert y.data_ptr() % 64 == 0 or y.numel() == 0
    assert y.tolist() == x.tolist()
    y.zero_()


@pytest.mark.parametrize("dtype", NUMPY)
def test_numpy_arrays_give_numpy_arrays(dtype):
    x = np.arange(6).reshape(2, 3).astype(NUMPY[dtype])
    (y,) = copy[dtype]([x])
    assert type(y) is np.ndarray
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)
    assert y.flags.writeable


def test_read_only_arrays_and_other_lenders_are_inputs():
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    x.flags.writeable = False
    np.testing.assert_array_equal(copy["f32"]([x])[0], x)
    np.testing.assert_array_equal(copy["f32"]([memoryview(x)])[0], x)


def test_parameters_and_subclasses_with_memory_are_tensors():
    class Mine(torch.Tensor):
        pass

    for x in (torch.nn.Parameter(torch.ones(2, 2), requires_grad=False), torch.ones(2, 2).as_subclass(Mine)):
        assert torch.equal(copy["f32"]([x])[0], torch.ones(2, 2))


def test_numbers_are_inputs_of_rank_0():
    for dtype, value in {
        "f32": 1.5,
        "f64": 2,
        "i64": -3,
        "i32": 7,
        "i1": True,
        "u8": 255,
        "u64": 2**64 - 1,
    }.items():
        entry = load("copy", dtype, rank=0)
        (y,) = entry([value])
        assert y.shape == ()
        assert y.item() == value
    assert load("copy", "f32", rank=0, outputs="torch")([1.5])[0] == torch.tensor(1.5)
    entry = load("copy", "u8", rank=0)
    for value in (256, -1, 1.5, True, 2**70):
        assert "number" in str(refused(entry, [value]))
    assert "number" in str(refused(copy["f32"], [1.5]))


def test_a_written_input_is_the_output():
    x = torch.zeros(4)
    (y,) = load("increment", "f32", rank=1, written=True)([x])
    assert y is x
    assert x.tolist() == [1] * 4
    (half,) = load("second_half", "f32", rank=1, written=True)([x[:]])
    assert half.tolist() == [2, 2]
    half[0] = 9
    assert x.tolist() == [2, 2, 9, 2]
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    assert "read-only" in str(refused(load("increment", "f32", rank=1, written=True), [frozen]))


def test_wrong_inputs_are_named():
    x = torch.ones(2, 3)
    error = refused(copy["f32"], [x, x])
    assert (error.code, error.op) == ("E0601", "copy")
    assert "expects 1 inputs (x), 2 came" in str(error)
    error = refused(copy["f32"], [x.double()])
    assert (error.code, error.op) == ("E0601", "x")
    assert "`x`" in str(error)
    assert "f32" in str(error)
    assert "f64" in str(error)
    assert "rank 2" in str(refused(copy["f32"], [torch.ones(2)]))
    for inputs in (x, None, {"x": x}, iter([x])):
        assert "tuple or list" in str(refused(copy["f32"], inputs))
    for thing in ("text", None, object(), [1.0]):
        assert type(thing).__name__ in str(refused(copy["f32"], [thing]))


def fake() -> torch.Tensor:
    from torch._subclasses import FakeTensorMode

    return FakeTensorMode().from_tensor(torch.ones(2, 2))


#: The tensor by a part of its message.
BAD = {
    "requires a gradient": lambda: torch.ones(2, 2, requires_grad=True),
    "negated view": lambda: torch.ones(2, 2, dtype=torch.complex64).conj().imag,
    "is_neg": lambda: torch.ones(1, dtype=torch.complex64).conj().imag.view(1, 1),
    "resolve_neg": lambda: torch.tensor(1j).conj().imag.expand(1, 1),
    "complex": lambda: torch.ones(2, 2, dtype=torch.complex64),
    "FakeTensor": fake,
    "meta": lambda: torch.ones(2, 2, device="meta"),
    "storage": lambda: torch.ones(2, 2).to_sparse(),
    "QInt": lambda: torch.quantize_per_tensor(torch.ones(2, 2), 1.0, 0, torch.quint8),
    "without memory": lambda: torch._efficientzerotensor((2, 2)),
    "narrow float": lambda: torch.ones(2, 2).to(torch.float8_e4m3fn),
    "has no support": lambda: np.ones((2, 2), dtype="S1"),
    "bytes for elements": lambda: np.ones((2, 2), dtype=[("a", "i1"), ("b", "f4")])["b"],
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_plain_memory_are_refused(what):
    error = refused(copy["f32"], [BAD[what]()])
    assert what in str(error)
    assert error.code in ("E0601", "E0610")
    assert "\n" not in error.message


def test_tensors_of_transforms_are_refused():
    for transform in (torch.vmap, torch.func.functionalize):
        with pytest.raises(disc.Error):
            transform(lambda x: copy["f32"]([x])[0])(
                torch.ones(2, 2, 2) if transform is torch.vmap else torch.ones(2, 2)
            )


def test_gradients_matter_in_grad_mode_only():
    x = torch.ones(2, 2, requires_grad=True)
    with torch.no_grad():
        (y,) = copy["f32"]([x])
    assert not y.requires_grad
    with torch.inference_mode():
        copy["f32"]([x])


def test_a_violated_fact_names_the_dims():
    error = refused(copy["f32"], [torch.ones(13, 2)], disc.DimError)
    assert error.code == "E0602"
    assert error.dims == ["D0"]
    assert "13 is not admitted" in str(error)


def test_weights_are_borrowed_and_kept_alive():
    weight = torch.nn.Parameter(torch.tensor([5.0, 6.0]))
    entry = load("first_weight", weights={"w": weight})
    assert entry([])[0] == 5
    with torch.no_grad():
        weight[0] = 7
    assert entry([])[0] == 7
    weight.data = torch.zeros(2)
    del weight
    gc.collect()
    assert entry([])[0] == 7
    entry.set_weights([("w", torch.arange(4.0)[2:])])
    assert entry([])[0] == 2
    entry.set_weights({"w": torch.arange(8.0).reshape(2, 4)[:, 3]})
    assert entry([])[0] == 3
    with pytest.raises(disc.Error) as caught:
        entry.set_weights({"w": torch.zeros(3)})
    assert caught.value.code == "E0608"
    with pytest.raises(disc.Error, match="weight `w` is"):
        entry.set_weights({"w": "text"})
    assert entry([])[0] == 3


def test_outputs_outlive_everything():
    entry = load("copy", "f32", rank=2)
    outputs = [entry([torch.full((300, 1000), float(i))])[0] for i in range(5)]
    del entry
    gc.collect()
    assert [y.mean().item() for y in outputs] == [0, 1, 2, 3, 4]


def test_memory_is_given_back():
    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    x, small = torch.ones(1000, 1000), np.ones((300, 1000), np.float32)
    for _ in range(20):
        copy["f32"]([x]), copy["f32"]([small])
    before = resident()
    for _ in range(500):
        copy["f32"]([x]), copy["f32"]([small])
        with pytest.raises(disc.Error):
            copy["f32"]([x, x])
    assert resident() - before < 64 << 20


def test_threads_call_at_once():
    results = {}

    def work(i):
        x = torch.full((50, 50), float(i))
        results[i] = all(torch.equal(copy["f32"]([x])[0], x) for _ in range(300))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == dict.fromkeys(range(4), True)


OLD_TORCH = """
import torch
del torch.Tensor.__dlpack_c_exchange_api__
from native.entries import load
for dtype in (torch.float32, torch.bool, torch.bfloat16):
    name = {torch.float32: "f32", torch.bool: "i1", torch.bfloat16: "bf16"}[dtype]
    x = torch.tensor([[1, 0], [2, 3]]).to(dtype)
    (y,) = load("copy", name, rank=2)((x,))
    assert type(y) is torch.Tensor and y.dtype == dtype and torch.equal(x, y), (x, y)
assert load("first_weight", weights={"w": torch.tensor([5.0, 6.0])}, outputs="torch")([])[0] == 5
import disc
for bad in (torch.ones(2, 2).to_sparse(), torch.ones(2, 2, dtype=torch.complex64).conj().imag, torch.ones(2, 2, device="meta")):
    try:
        load("copy", "f32", rank=2)([bad])
    except disc.Error as error:
        assert error.code == "E0601", error
    else:
        raise AssertionError(bad)
"""


def test_versions_of_torch_without_the_exchange_interface_work():
    run = subprocess.run(
        [sys.executable, "-c", OLD_TORCH],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


def test_an_executable_says_what_it_is():
    assert repr(copy["f32"]) == "<disc executable copy(x: f32 [D0, D1])>"
    assert [i["name"] for i in copy["f32"].entry["inputs"]] == ["x"]
    entry = load("copy", "f32", rank=2)
    entry([torch.ones(1, 1)])
    assert entry.calls == 1
    assert entry.report()["calls"] == 1
    assert isinstance(entry, _disc.Executable)
