"""disc for TensorFlow: functions, Keras models and SavedModels, compiled for inputs of any size.

>>> import disc.tensorflow                                        # doctest: +SKIP
>>> fast = disc.tensorflow.optimize(model, tf.TensorSpec([None, 128], tf.int32))  # doctest: +SKIP

TensorFlow traces and freezes; what disc compiles runs without it, also from a package of
``disc.export(fast, path)``.
"""

from __future__ import annotations

from .optimize import load, optimize
from .program import Program

__all__ = ["Program", "load", "optimize"]
