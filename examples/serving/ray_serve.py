"""Serves a package on many machines with Ray Serve.

    pip install "ray[serve]" disc-compiler
    DISC_PACKAGE=/models/model.discpkg serve run ray_serve:app

Each replica is a process that opens the package; replicas on one machine share the pages of its
weights, since the file is mapped. Ray starts and stops replicas with the load, replaces those that
die, and retries their requests elsewhere.

A request is JSON, ``{"inputs": {"ids": [[1, 2]]}}``; so is the answer.
"""

from __future__ import annotations

import os
from typing import Any

import disc
import numpy as np
from ray import serve

#: NumPy's names of element types.
TYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "i1": "bool", "i32": "int32", "i64": "int64"}


@serve.deployment(
    autoscaling_config={"min_replicas": 2, "max_replicas": 8, "target_ongoing_requests": 4},
    max_ongoing_requests=8,
    ray_actor_options={"num_cpus": 1},
)
class Model:
    """One replica: a package, opened once."""

    def __init__(self, path: str, entry: str | None = None):
        self.package = disc.load(path, entry=entry)
        self.entry = self.package[entry or next(iter(self.package.entries))]
        self.entry.load()

    def check_health(self) -> None:
        """Is called by Ray; raises if the replica cannot serve."""
        self.entry.load()

    def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Runs one request."""
        arrays = {p.name: np.asarray(inputs[p.name], TYPES.get(p.dtype, p.dtype)) for p in self.entry.inputs}
        results = self.entry(**arrays)
        if not isinstance(results, tuple):
            results = (results,)
        names = [port.name for port in self.entry.outputs]
        return {name: array.tolist() for name, array in zip(names, results, strict=True)}

    async def __call__(self, request) -> dict[str, Any]:
        try:
            body = await request.json()
            return {"outputs": self.predict(body["inputs"])}
        except (KeyError, ValueError, disc.Error) as error:
            return {"error": str(error)}


app = Model.bind(os.environ.get("DISC_PACKAGE", "model.discpkg"))
