"""Emits gathers, scatters, sorts and top-k.

``bounds`` of a gather: "check" fails the call, "clamp" takes the nearest element.
"""

from __future__ import annotations

from . import dtypes


class IndexingOps:
    """The part of an ``Emitter`` that reads and writes elements at computed places."""

    def take(self, x, axis: int, index, bounds: str = "check"):
        """The elements ``index`` of one axis, as ``numpy.take``."""
        rank, depth = len(x.shape), len(index.shape)
        offset = [i if i < axis else i + depth - 1 for i in range(rank) if i != axis]
        window = [1 if i == axis else size for i, size in enumerate(x.shape)]
        return self.gather(
            x,
            index,
            offset_dims=offset,
            collapsed=[axis],
            index_map=[axis],
            vector_dim=depth,
            window=window,
            bounds=bounds,
        )

    def gather(
        self,
        x,
        index,
        *,
        offset_dims,
        collapsed,
        index_map,
        vector_dim: int,
        window,
        bounds: str = "check",
        batching=(),
    ):
        """The general form: an index vector is along ``vector_dim`` of ``index`` and addresses the
        axes ``index_map`` of x.

        ``batching``: axes that x and the index have in common.
        """
        lines = {"operand_batching_dims": list(batching), "start_indices_batching_dims": list(batching)}
        return self.op(
            "gather",
            x,
            index,
            offset_dims=list(offset_dims),
            collapsed_slice_dims=list(collapsed),
            start_index_map=list(index_map),
            index_vector_dim=vector_dim,
            slice_sizes=list(window),
            bounds=bounds,
            **(lines if batching else {}),
        )

    def scatter(
        self,
        x,
        index,
        updates,
        *,
        window_dims,
        inserted,
        index_map,
        vector_dim: int,
        how: str,
        bounds: str = "check",
        batching=(),
    ):
        """``how``: overwrite, add, multiply, maximum, minimum.

        An index out of range fails the call, or is left out ("skip").

        ``batching``: axes that x and the index have in common.
        """
        how = "or" if how == "add" and x.dtype == "i1" else how
        attrs = {
            "update_window_dims": list(window_dims),
            "inserted_window_dims": list(inserted),
            "scatter_dims_to_operand_dims": list(index_map),
            "index_vector_dim": vector_dim,
            "bounds": bounds,
        }
        if batching:
            attrs |= {"input_batching_dims": list(batching), "scatter_indices_batching_dims": list(batching)}
        return self.combine("scatter", [x, index, updates], how, x.dtype, **attrs)

    def sort(self, xs, axis: int, descending: bool = False):
        """Sorts ``xs[0]`` stably along one axis, NaN as greatest; the others follow it."""
        arguments = [((), x.dtype) for x in xs for _ in range(2)]
        body = (arguments, lambda *values: [self._before(values[0], values[1], descending)])
        result = self.builder.op("sort", list(xs), regions=[body], dimension=axis, is_stable=True)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def _before(self, a, c, descending: bool):
        if descending:
            a, c = c, a
        if a.dtype not in dtypes.FLOATS:
            return self.op("compare", a, c, direction="LT")
        a_nan, c_nan = self.op("is_nan", a), self.op("is_nan", c)
        only_c = self.op("and", c_nan, self.op("not", a_nan))
        return self.op("or", self.op("compare", a, c, direction="LT"), only_c)

    def top_k(self, x, k, largest: bool = True, skip=None):
        """The ``k`` greatest (or least) of the last axis after the first ``skip``, NaN as greatest,
        and their places (i64).
        """
        behind = {} if skip is None else {"skip": skip}
        return tuple(self.op("top_k", x, k=k, largest=largest, index_dtype="i64", **behind))
