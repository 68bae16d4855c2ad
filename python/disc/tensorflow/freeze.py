"""Traces a function of TensorFlow and freezes its variables to constants."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.errors import Error
from .call_form import CallForm


@dataclass(frozen=True)
class Frozen:
    """A graph whose variables are constants."""

    #: A GraphDef.
    graph: bytes
    #: The placeholders, in the order of the flat arguments.
    inputs: tuple[str, ...]
    #: The results, in the order of the flat structure of the results.
    outputs: tuple[str, ...]
    #: Names for them: keys of a dict that the function returns, else those of the results.
    names: tuple[str, ...]
    #: Puts flat results into the structure that the function returns.
    pack: Callable[[list], Any]
    #: The structure of the arguments.
    form: CallForm


def tensorflow():
    """Imports TensorFlow."""
    try:
        return importlib.import_module("tensorflow")
    except ModuleNotFoundError as error:
        if error.name != "tensorflow":
            raise
        raise Error(
            "disc.tensorflow needs TensorFlow, which is not installed here",
            help="pip install tensorflow; disc.load runs packages without it",
        ) from error


def concrete(function: Callable, example: tuple):
    """Traces ``function`` for the example, with as many open sizes as it takes."""
    tf = tensorflow()
    if isinstance(function, tf.types.experimental.ConcreteFunction):
        return function
    is_keras = isinstance(function, tf.keras.layers.Layer)
    if not example and is_keras and (inputs := getattr(function, "inputs", None)):
        example = (tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), inputs),)
        if isinstance(example[0], (list, tuple)) and len(example[0]) == 1:
            example = (example[0][0],)
    if is_keras and example and not function.built and all(map(_is_array, tf.nest.flatten(example))):
        # A trace with open sizes cannot make variables.
        function(*example, training=False)
    called = (lambda *args: function(*args, training=False)) if is_keras else function
    traced = called if hasattr(called, "get_concrete_function") else tf.function(called)
    failure: Exception | None = None
    for specs in _specs(tf, example):
        try:
            return traced.get_concrete_function(*specs)
        except Exception as error:
            failure = failure or error
    raise Error(f"TensorFlow cannot trace the function: {failure}", code="E1006") from failure


def _is_array(leaf) -> bool:
    """Returns true for a tensor or an array; specs have no values, and numbers are constants."""
    return hasattr(leaf, "__array__")


def _specs(tf, example: tuple):
    """The example as specs: of tensors all sizes are open, else all but the last, else the first
    only, else none.
    """
    for kept in (lambda rank: range(0), lambda rank: [rank - 1], lambda rank: range(1, rank), range):

        def spec(leaf, kept=kept):
            if not _is_array(leaf):
                return leaf
            tensor = tf.convert_to_tensor(leaf)
            shape = tensor.shape.as_list()
            fixed = set(kept(len(shape)))
            return tf.TensorSpec([n if i in fixed else None for i, n in enumerate(shape)], tensor.dtype)

        yield tf.nest.map_structure(spec, example)


def frozen(concrete) -> Frozen:
    """Freezes the variables of a concrete function."""
    tf = tensorflow()
    convert = importlib.import_module("tensorflow.python.framework.convert_to_constants")
    function = convert.convert_variables_to_constants_v2(concrete, lower_control_flow=False)
    structure = concrete.structured_outputs
    outputs = tuple(tensor.name for tensor in function.outputs)
    args, kwargs = concrete.structured_input_signature
    form = CallForm(args, kwargs, lambda leaf: isinstance(leaf, tf.TensorSpec))
    if len(form.tensors) != len(function.inputs):
        raise Error("the arguments are no tensors in mappings, lists and tuples", code="E0601")

    def pack(values: list) -> Any:
        return tf.nest.pack_sequence_as(structure, values, expand_composites=True)

    return Frozen(
        graph=function.graph.as_graph_def().SerializeToString(),
        inputs=tuple(tensor.name.split(":")[0] for tensor in function.inputs),
        outputs=outputs,
        names=tuple(sorted(structure)) if _is_flat(structure, len(outputs)) else outputs,
        pack=pack,
        form=form,
    )


def _is_flat(structure: Any, count: int) -> bool:
    """Returns true for a dict of ``count`` tensors by name."""
    is_named = isinstance(structure, dict) and all(isinstance(key, str) for key in structure)
    return (
        is_named
        and len(structure) == count
        and not any(isinstance(x, (dict, list, tuple)) for x in structure.values())
    )
