"""The compiler under test: disc itself where its extension is built, else the stub."""

from __future__ import annotations

import os

import pytest
import torch

torch.manual_seed(0)
# A test sees what it compiled itself; tests of the cache give it a folder of their own.
os.environ["DISC_CACHE"] = "0"

#: Programs of test_cache_sound.py and test_cuda.py, which need arguments, the harness of PyTorch's
#: suites, and tests beside TensorFlow, which has an environment apart (make test-tensorflow).
collect_ignore = ["torch/cache/cache_cases.py", "torch/devices/cuda_child.py", "torch/compile/peer", "tf"]


@pytest.fixture(autouse=True, scope="session")
def _nothing_falls_back():
    """A test of the compiler sees an error where torch would serve a call."""
    from disc import Options

    with Options(fallback="error"):
        yield


@pytest.fixture(autouse=True)
def _users_default(request):
    """Tests of fallbacks are marked: torch may serve what is not compiled."""
    if not request.node.get_closest_marker("fallback"):
        yield
        return
    from disc import Options

    with Options(fallback="framework"):
        yield


@pytest.fixture
def inference_of_fresh_dynamo():
    """A test of inference by ``torch.compile``, with no graph of another test."""
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def pytest_addoption(parser):
    parser.addoption(
        "--rows",
        choices=("some", "all"),
        default="some",
        help="dtypes of the row tests: two for each row (the first, and one that changes from row to row), or all",
    )
    parser.addoption(
        "--examples",
        choices=("some", "all"),
        default="some",
        help="examples: those that need no further package, or all of them and the notebooks",
    )


def _native() -> bool:
    try:
        from disc import _disc
    except ImportError:
        return False
    return hasattr(_disc, "compile")


@pytest.fixture(scope="session")
def compile_module():
    """``compile_module(module, args, kwargs=None, dims=None)`` compiles a module once."""
    if _native():
        import disc

        return lambda module, args, kwargs=None, dims=None: disc.optimize(
            module, args, kwargs=kwargs, dims=dims
        )
    from stub.run import StubModule

    return StubModule


@pytest.fixture
def cuda(monkeypatch):
    """A device ``cuda:0`` that is none; the list has the options of all compilations."""
    import fake_cuda

    return fake_cuda.install(monkeypatch)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a cache on disk of the test's own."""
    monkeypatch.setenv("DISC_CACHE", "1")
    monkeypatch.setenv("DISC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"
