"""The model of Triton's repository in examples/, with a stub of the module that Triton gives it."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import types
from pathlib import Path

import disc
import numpy as np
import pytest
import torch

MODEL = Path(__file__).parents[2] / "examples/serving/triton/sentence/1/model.py"


class Sentence(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 4)

    def forward(self, ids):
        return self.table(ids).mean(1)


class Tensor:
    def __init__(self, name: str, array: np.ndarray):
        self.name, self.array = name, array

    def as_numpy(self) -> np.ndarray:
        return self.array


class Response:
    def __init__(self, output_tensors: list, error=None):
        self.output_tensors, self.error = output_tensors, error


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The model as Triton would make it, beside a package."""
    backend = types.ModuleType("triton_python_backend_utils")
    backend.Tensor, backend.InferenceResponse, backend.TritonError = Tensor, Response, str
    backend.get_input_tensor_by_name = lambda request, name: request[name]
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    torch.manual_seed(0)
    sentence = Sentence().eval()
    disc.export(sentence, (torch.tensor([[1, 2, 3]]),), tmp_path / "model.discpkg")
    spec = importlib.util.spec_from_file_location("model", shutil.copy(MODEL, tmp_path / "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.TritonPythonModel()
    made.initialize({"model_config": json.dumps({"parameters": {"entry": {"string_value": "main"}}})})
    return made, sentence


def test_requests_are_answered_and_a_wrong_one_alone_fails(model):
    made, sentence = model
    batches = [np.array([[1, 2]]), np.array([[1, 99]]), np.zeros((3, 5), np.int64)]
    right, wrong, other = made.execute([{"ids": Tensor("ids", ids)} for ids in batches])
    for answer, ids in ((right, batches[0]), (other, batches[2])):
        (tensor,) = answer.output_tensors
        assert tensor.name == "output0"
        np.testing.assert_allclose(
            tensor.as_numpy(), sentence(torch.from_numpy(ids)).detach().numpy(), atol=1e-6
        )
    assert wrong.output_tensors == []
    assert "99" in wrong.error
