"""A model of Triton's Python backend that runs a package; it needs only NumPy and disc.

``model.discpkg`` is beside this file. Triton batches requests before they come here; inputs and
outputs have the names of the package, declared in ``config.pbtxt``.
"""

from __future__ import annotations

import json
from pathlib import Path

import disc
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        """Opens the package; ``parameters`` of the configuration may name an entry."""
        parameters = json.loads(args["model_config"]).get("parameters", {})
        name = parameters.get("entry", {}).get("string_value", "main")
        self.entry = disc.load(Path(__file__).with_name("model.discpkg"))[name]
        self.entry.load()

    def execute(self, requests: list) -> list:
        """Runs each request; one that fails is answered by its own error."""
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        try:
            inputs = [
                pb_utils.get_input_tensor_by_name(request, p.name).as_numpy() for p in self.entry.inputs
            ]
            results = self.entry(*inputs)
        except disc.Error as error:
            return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(error)))
        if not isinstance(results, tuple):
            results = (results,)
        named = zip(self.entry.outputs, results, strict=True)
        tensors = [pb_utils.Tensor(port.name, array) for port, array in named]
        return pb_utils.InferenceResponse(output_tensors=tensors)
