"""A program that uses the public names as users do: `mypy --strict` checks it, nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import disc
import torch


def compiled(model: torch.nn.Module, x: torch.Tensor) -> disc.OptimizedModule:
    dims = {"x": {0: "B", 1: disc.Dim("S", max=512, multiple_of=8, likely=(64, 128))}}
    with disc.Options(threads=1):
        return disc.optimize(model, (x,), dims=dims, options=disc.Options(weights="bf16", verify=2))


def looked_at(fast: disc.OptimizedModule, x: torch.Tensor) -> dict[str, Any]:
    found: disc.CheckResult = disc.check(fast, (x,), {})
    if not found and found.first_difference is not None:
        print(found.first_difference.reason, found.max_rel_err)
    report: disc.Report = disc.report(fast)
    report.to_html(Path("report.html"))
    text: str = report.to_json()
    return report.to_dict() | {"text": text}


def written(model: torch.nn.Module, x: torch.Tensor, path: Path) -> disc.Package:
    made: bytes | None = disc.export(model, (x,), path, target=["x86-64-v2", "x86-64-v3"], prepared=False)
    assert made is None
    with disc.capture(model, path.with_suffix(".discap")) as recording:
        calls: int = recording.calls
    package = disc.load(path, verify="all", require_signature=None)
    names: list[str] = [port.name for port in package["main"].inputs]
    print(calls, names, package.target, disc.devices(), disc.clear_cache())
    return package


def refused(model: torch.nn.Module) -> str:
    try:
        disc.save(disc.optimize(model), "model.discpkg")
    except (disc.UnsupportedOp, disc.PackageError) as error:
        code: str = error.code
        return code
    except disc.Error as error:
        return error.message
    return ""
