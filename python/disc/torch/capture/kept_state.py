"""Decides which state of a module its calls keep: the buffers that they assign anew.

Writes in place need no decision: whatever a trace writes to is stored (``lowering.functionalize``).
"""

from __future__ import annotations

from . import side_effects


def settle(captured, module, arguments, tensors) -> None:
    """Keeps the assignments to buffers that calls have to make, and refuses other state."""
    traced = captured.traced
    written = set(traced.written())
    weights = {name: node for node, name, _ in traced.weights}
    changed = [name for name, node in weights.items() if node in written]
    differ = side_effects.refuse_kept(module, arguments, tensors, captured.changes, changed, traced.assigned)
    inputs = set(traced.inputs)

    def is_table(name: str, result) -> bool:
        """Returns true for what is computed only from weights, and is the same after each call."""
        return name not in differ and not traced.depends_on(result, inputs | {weights.get(name)})

    traced.drop_assignments({name for name, result in traced.assignments if is_table(name, result)})
