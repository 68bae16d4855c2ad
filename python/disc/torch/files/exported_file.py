"""Compiles a model in a file of torch (``files.saved_file``), for the command ``disc compile``.

``python -m disc.torch.files.exported_file`` reads a request as JSON from standard input and prints
one line of JSON: ``{"error": null}``, or the error with its code.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ...core.errors import Error
from ...core.options import Options
from .worker import answer, require_torch


def compile_file(request: dict[str, Any]) -> None:
    """Writes the package that a request asks for; raises ``disc.Error``."""
    require_torch(request["model"], sys.executable)
    from .export import export
    from .saved_file import exported, saved

    if request["model"].endswith(".pt"):
        model = saved(request["model"], request.get("inputs", ()), request.get("unsafe_pickle", False))
    else:
        model = exported(request["model"])
    options, dims = Options(**_options(request)), _dims(request)
    if model.is_static and _has_names(dims):
        raise Error(
            f"{request['model']}: a model of TorchScript is compiled for the sizes of the example alone",
            code="E0906",
            help="name no axes; for open sizes, torch.export.save the module that it was made from",
        )
    export(
        {request["entry"]: (model.module, model.args, model.kwargs)},
        request["output"],
        dims="static" if model.is_static else dims,
        target=request["targets"] or None,
        options=options,
        state=request.get("state", "refuse"),
    )


def _options(request: dict[str, Any]) -> dict[str, Any]:
    words = {"true": True, "false": False}
    found = {
        name: int(text) if text.isdecimal() else words.get(text, text)
        for name, text in request["options"].items()
    }
    if request["threads"] is not None:
        found["threads"] = request["threads"]
    return found


def _dims(request: dict[str, Any]) -> dict[str, dict[int, str | int]] | None:
    """Sizes and names of axes: those of ``--dim`` come before those of the types of inputs."""
    inputs = request.get("inputs", ())
    dims = {row["name"]: dict(enumerate(row["axes"])) for row in inputs if "axes" in row}
    for name, axes in request["dims"].items():
        dims.setdefault(name, {}).update({int(axis): dim for axis, dim in axes.items()})
    return dims or None


def _has_names(dims: dict[str, dict[int, str | int]] | None) -> bool:
    return any(isinstance(dim, str) for axes in (dims or {}).values() for dim in axes.values())


def main() -> int:
    def work() -> dict[str, Any]:
        compile_file(json.load(sys.stdin))
        return {}

    return answer(work)


if __name__ == "__main__":
    sys.exit(main())
