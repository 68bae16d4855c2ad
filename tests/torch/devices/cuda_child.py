"""A program of test_cuda.py: runs a case on the driver of crates/disc-fake-cuda."""

from __future__ import annotations

import ctypes
import sys

import disc
import numpy as np
import pytest
from disc import _disc

#: A kind of DLPack, and CUDA's first device.
CUDA = (2, 0)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Driver:
    """The driver, as another library of the process uses it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.call("cuCtxPushCurrent_v2", ctypes.c_void_p(1))

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, f"{name} gave {status}"

    def alive(self, kind):
        return self.library.fake_cuda_alive(kind.encode())


class DeviceArray:
    """An array in memory of the device, lent only by DLPack's protocol."""

    def __init__(self, driver, array):
        self.driver, self.array = driver, np.ascontiguousarray(array)
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, self.array.nbytes)))
        self.address = address.value
        if self.array.nbytes:
            at = ctypes.c_void_p(self.array.ctypes.data)
            driver.call(
                "cuMemcpyHtoDAsync_v2",
                ctypes.c_uint64(self.address),
                at,
                ctypes.c_size_t(self.array.nbytes),
                None,
            )
            driver.call("cuStreamSynchronize", None)
        self.sizes = (ctypes.c_int64 * max(1, self.array.ndim))(*self.array.shape)
        tensor = _DLTensor(self.address, CUDA, self.array.ndim, (2, 32, 1, 0), self.sizes, None, 0)
        self.managed = _Managed(tensor, None, None)

    def __dlpack_device__(self):
        return CUDA

    def __dlpack__(self, *, stream=None):
        assert stream == 1, "calls on such arrays run in the default stream"
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.managed), b"dltensor", None)


def view_of(tensor):
    """The description of a tensor in its capsule, and the capsule, which keeps it."""
    capsule = tensor.__dlpack__(stream=1)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return capsule, ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(_Managed)).contents.tensor


def on_host(driver, tensor):
    """Copies a result of the device to the host, as a framework that reads its DLPack would."""
    _capsule, view = view_of(tensor)
    assert tuple(view.device) == CUDA
    array = np.empty([view.sizes[axis] for axis in range(view.rank)], np.float32)
    to, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
    driver.call("cuMemcpyDtoHAsync_v2", to, ctypes.c_uint64(view.data), size, None)
    driver.call("cuStreamSynchronize", None)
    return array


TEXT = """func @main(%x: tensor<[N]x3xf32>) -> tensor<[N]x3xf32> {
  %y = multiply %x, %x : tensor<[N]x3xf32>
  return %y : tensor<[N]x3xf32>
}"""


def compiled():
    return _disc.compile(TEXT, {"device": "cuda:0"}).load()


def devices():
    assert [name for name in disc.devices() if name.startswith("cuda")] == ["cuda:0", "cuda:1"]
    assert compiled().device == "cuda:0"


def arrays_of_the_host():
    executable = compiled()
    for rows in (0, 1, 5):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(executable([x])[0], x * x)


def arrays_of_the_device():
    driver, executable = Driver(), compiled()
    for rows in (0, 1, 5, 5, 5):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        (y,) = executable([DeviceArray(driver, x)])
        assert (y.shape, y.dtype, y.device, y.__dlpack_device__()) == ((rows, 3), "f32", "cuda:0", CUDA)
        assert repr(y) == f"<f32 [{rows}, 3] on cuda:0>"
        # A result is the input of the next call, as often as one likes.
        (z,) = executable([y])
        np.testing.assert_array_equal(on_host(driver, y), x * x)
        np.testing.assert_array_equal(on_host(driver, z), x**4)
    before = driver.alive("memory")
    del y, z
    assert driver.alive("memory") == before - 2, "memory of results is freed"


def arrays_elsewhere():
    driver = Driver()
    array = DeviceArray(driver, np.ones((2, 3), np.float32))
    for device in ("cpu", "cuda:1"):
        executable = _disc.compile(TEXT, {"device": device}).load()
        with pytest.raises(disc.Error, match=f"is a tensor on cuda:0; calls run on {device}"):
            executable([array])


def modules():
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    ).eval()
    fast = disc.optimize(model, (torch.randn(3, 8),), options=disc.Options(device="cuda:0", fallback="error"))
    for rows in (3, 1, 7, 3, 3):
        x = torch.randn(rows, 8)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x))
    values = disc.report(fast).to_dict()
    assert (values["compiles"], values["coverage"]) == (1, 1.0)
    assert values["target"].startswith("nvptx:sm_90 on "), values["target"]


def memory_of_torch():
    import torch

    driver, made = Driver(), {}

    def alloc(size, device=None, stream=None):
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        made[address.value] = (size, device)
        return address.value

    def delete(address):
        del made[address]
        driver.call("cuMemFree_v2", ctypes.c_uint64(address))

    torch.cuda.is_available = lambda: True
    torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete = alloc, delete
    text = """weight @w : tensor<3xf32>
func @main(%x: tensor<[N]x3xf32>) -> tensor<[N]x3xf32> {
  %w = weight @w : tensor<3xf32>
  %b = broadcast_in_dim %w, dims = [1] : (tensor<3xf32>) -> tensor<[N]x3xf32>
  %y = multiply %x, %b : tensor<[N]x3xf32>
  return %y : tensor<[N]x3xf32>
}"""
    w = DeviceArray(driver, np.ones(3, np.float32))
    executable = _disc.compile(text, {"device": "cuda:0"}).load({"w": w})
    assert not made, "weights stay where they are"
    (y,) = executable([DeviceArray(driver, np.ones((4, 3), np.float32))])
    capsule, view = view_of(y)
    assert made == {view.data: (48, 0)}, made
    del capsule, view
    np.testing.assert_array_equal(on_host(driver, y), np.ones((4, 3), np.float32))
    del y
    assert not made


def late_errors():
    text = """func @main(%x: tensor<[N]xf32>, %i: tensor<[M]xi64>) -> tensor<[M]xf32> {
  %y = gather %x, %i, offset_dims = [], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1,
    slice_sizes = [1], bounds = check : (tensor<[N]xf32>, tensor<[M]xi64>) -> tensor<[M]xf32>
  return %y : tensor<[M]xf32>
}"""
    executable = _disc.compile(text, {"device": "cuda:0"}).load()
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(disc.Error, match="9") as caught:
        executable([x, np.array([1, 9])])
    assert caught.value.code == "E0603"
    np.testing.assert_array_equal(executable([x, np.array([1, 3])])[0], [1, 3])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
