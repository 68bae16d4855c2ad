"""Cases in other element types than f32, and the models of peers in int8."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from pathlib import Path

import torch
from case import Case

HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}


class NarrowCase:
    """A case whose module and inputs are of a half type; ``wide`` is its module in f32."""

    def __init__(self, case: Case, dtype: torch.dtype):
        self._case, self._dtype = case, dtype
        self.wide, self.module = case.module, copy.deepcopy(case.module).to(dtype)

    def __getattr__(self, name: str):
        return getattr(self._case, name)

    def inputs(self, size) -> tuple[torch.Tensor, ...]:
        return tuple(t.to(self._dtype) if t.is_floating_point() else t for t in self._case.inputs(size))


def widened(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(t.float() if t.is_floating_point() else t for t in inputs)


def with_wide_inputs(call: Callable, examples) -> Callable:
    """A call of a model in f32 on the inputs of examples, which are converted beforehand."""
    wide = {id(x): widened(x) for x in examples}
    return lambda inputs: call(wide[id(inputs)])


def quantised(path: Path, examples) -> Path:
    """Makes a QDQ model of an ONNX file: weights of int8 by columns, activations of uint8 in the
    ranges of the examples.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Examples(CalibrationDataReader):
        def __init__(self, names: list[str]):
            self.left = iter([{n: t.numpy() for n, t in zip(names, x, strict=True)} for x in examples[:4]])

        def get_next(self):
            return next(self.left, None)

    import onnxruntime

    made, inferred = path.with_suffix(".int8.onnx"), path.with_suffix(".inferred.onnx")
    if not made.exists():
        logging.disable(logging.WARNING)
        try:
            quant_pre_process(str(path), str(inferred), skip_symbolic_shape=True)
            names = [
                i.name
                for i in onnxruntime.InferenceSession(
                    str(inferred), providers=["CPUExecutionProvider"]
                ).get_inputs()
            ]
            quantize_static(
                str(inferred),
                str(made),
                Examples(names),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
        finally:
            logging.disable(logging.NOTSET)
    return made
