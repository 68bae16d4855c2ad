"""QDQ models of ONNX files: int8 as ONNX Runtime and OpenVINO read it."""

from __future__ import annotations

import logging
from pathlib import Path


def quantised(path: Path, examples) -> Path:
    """Makes a QDQ model of an ONNX file: weights of int8 by columns, activations of uint8 in the
    ranges of the examples.
    """
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Examples(CalibrationDataReader):
        def __init__(self, names: list[str]):
            self.left = iter([{n: t.numpy() for n, t in zip(names, x, strict=True)} for x in examples[:4]])

        def get_next(self):
            return next(self.left, None)

    made, inferred = path.with_suffix(".int8.onnx"), path.with_suffix(".inferred.onnx")
    if made.exists():
        return made
    logging.disable(logging.WARNING)
    try:
        quant_pre_process(str(path), str(inferred), skip_symbolic_shape=True)
        names = [i.name for i in onnx.load(str(inferred), load_external_data=False).graph.input]
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
