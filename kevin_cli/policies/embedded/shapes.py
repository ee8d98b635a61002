"""ATen operations that are other shapes of the same elements: views, joins, look-ups, windows, running sums.

One table an entry, as in `operations.py`: the operator's name and a function with the operator's own parameter names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from kevin_cli.policies.embedded.details import Window
from kevin_cli.policies.embedded.operations import Dims, Rule, mean, no_dtype, where
from kevin_cli.policies.embedded.values import (
    RefusedError,
    Value,
    apply,
    broadcast_shape,
    expand,
    index,
    join,
    narrow,
    permute,
    pick,
    scan,
    view,
)


def slices(self: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Value:
    size = self.shape[dim]
    first, last, stride = slice(start, end, step).indices(size)
    if stride != 1:
        raise RefusedError("it slices with a step")
    return narrow(self, dim, first, max(last - first, 0))


def select(self: Value, dim: int, index: int) -> Value:
    axis = dim % len(self.shape)
    one = narrow(self, axis, index % self.shape[axis], 1)
    return view(one, self.shape[:axis] + self.shape[axis + 1 :])


def chunk(self: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    return split(self, -(-self.shape[dim] // chunks), dim)


def split(self: Value, split_size: int, dim: int = 0) -> tuple[Value, ...]:
    size = self.shape[dim]
    return tuple(narrow(self, dim, at, min(split_size, size - at)) for at in range(0, size, split_size))


def split_sizes(self: Value, split_sizes: tuple[int, ...], dim: int = 0) -> tuple[Value, ...]:
    starts = [sum(split_sizes[:place]) for place in range(len(split_sizes))]
    return tuple(narrow(self, dim, at, size) for at, size in zip(starts, split_sizes, strict=True))


def unbind(self: Value, dim: int = 0) -> tuple[Value, ...]:
    return tuple(select(self, dim, place) for place in range(self.shape[dim]))


def transpose(self: Value, dim0: int, dim1: int) -> Value:
    order = list(range(len(self.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(self, tuple(order))


def expand_to(self: Value, size: tuple[int, ...], implicit: bool = False) -> Value:
    lead = len(size) - len(self.shape)
    return expand(self, tuple(self.shape[d - lead] if n == -1 else n for d, n in enumerate(size)))


def broadcast_tensors(tensors: tuple[Value, ...]) -> tuple[Value, ...]:
    shape = broadcast_shape(*(item.shape for item in tensors))
    return tuple(expand(item, shape) for item in tensors)


def stack(tensors: tuple[Value, ...], dim: int = 0) -> Value:
    axis = dim % (len(tensors[0].shape) + 1)
    return join(tuple(view(item, (*item.shape[:axis], 1, *item.shape[axis:])) for item in tensors), axis)


def index_by(self: Value, indices: tuple[Value | None, ...]) -> Value:
    """One tensor of places; negative ones count from the end."""
    given = [place for place in indices if place is not None]
    if len(given) != 1:
        raise RefusedError("it is indexed by several tensors at once")
    if given[0].kind != "int":
        raise RefusedError("it is indexed by a mask")
    return pick(self, given[0], indices.index(given[0]), whole=True, wraps=True)


def embedding(
    weight: Value, indices: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    return pick(weight, indices, 0, whole=True)


def _padded(before: Dims, rank: int) -> tuple[int, ...]:
    """One number for each dimension, as torch reads them."""
    given = (before,) if isinstance(before, int) else tuple(before or ())
    return given * rank if len(given) == 1 else given


def windows(op: str, x: Value, sizes: Dims, steps: Dims, before: Dims, gaps: Dims, rank: int) -> Value:
    """A reduction over small windows of the last `rank` dimensions, rounded down at the end as torch does."""
    wide, far, lead, gap = (_padded(item, rank) for item in (sizes, steps or sizes, before, gaps))
    if x.kind != "float":
        raise RefusedError(f"it pools {x.dtype} values")
    extent = x.shape[-rank:]
    ends = zip(extent, wide, far, lead, gap, strict=True)
    out = tuple((n + 2 * p - g * (k - 1) - 1) // s + 1 for n, k, s, p, g in ends)
    return Value("window", (x,), (*x.shape[:-rank], *out), "float32", Window(op, wide, far, lead, gap, extent))


def max_pool(
    rank: int,
    self: Value,
    kernel_size: Dims,
    stride: Dims = (),
    padding: Dims = 0,
    dilation: Dims = 1,
    ceil_mode: bool = False,
) -> Value:
    if ceil_mode:
        raise RefusedError("it pools with the last window rounded up")
    return windows("max", self, kernel_size, stride, padding, dilation, rank)


def avg_pool(
    rank: int,
    self: Value,
    kernel_size: Dims,
    stride: Dims = (),
    padding: Dims = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    has_padding = any(_padded(padding, rank))
    if ceil_mode or (has_padding and not count_include_pad):
        raise RefusedError("it pools with windows of several sizes")
    total_sum = windows("sum", self, kernel_size, stride, padding, 1, rank)
    assert isinstance(total_sum.detail, Window)
    return total_sum / float(divisor_override or math.prod(total_sum.detail.sizes))


def running(op: str, self: Value, dim: int, dtype: str | None = None) -> Value:
    no_dtype(dtype, f"a running {op}")
    return scan(op, self, dim)


def flip(self: Value, dims: tuple[int, ...]) -> Value:
    for dim in dims:
        size = self.shape[dim]
        self = pick(self, apply("sub", size - 1, index(size)), dim, whole=True, is_safe=True)
    return self


def adaptive_avg_pool(rank: int, self: Value, output_size: tuple[int, ...]) -> Value:
    """To sizes that divide the input's, where all windows are alike; to one element it is a mean."""
    extent, sizes = self.shape[-rank:], _padded(output_size, rank)
    if all(size == 1 for size in sizes):
        return mean(self, tuple(range(-rank, 0)), True)
    if any(n % size for n, size in zip(extent, sizes, strict=True)):
        raise RefusedError("it pools with windows of several sizes")
    wide = tuple(n // size for n, size in zip(extent, sizes, strict=True))
    return avg_pool(rank, self, wide)


def triangle(side: str, self: Value, diagonal: int) -> Value:
    """The entries on one side of a diagonal; zero elsewhere."""
    rows, columns = self.shape[-2:]
    return where(apply(side, index(columns), apply("add", view(index(rows), (rows, 1)), diagonal)), self, 0.0)


SHAPES: dict[str, Rule] = {
    "aten.cat.default": lambda tensors, dim=0: join(tensors, dim),
    "aten.concat.default": lambda tensors, dim=0: join(tensors, dim),
    "aten.stack.default": stack,
    "aten.embedding.default": embedding,
    "aten.index_select.default": lambda self, dim, index: pick(self, index, dim, whole=True),
    "aten.index.Tensor": index_by,
    "aten.gather.default": lambda self, dim, index, sparse_grad=False: pick(self, index, dim, whole=False),
    **{f"aten.max_pool{rank}d.default": partial(max_pool, rank) for rank in (1, 2, 3)},
    **{f"aten.avg_pool{rank}d.default": partial(avg_pool, rank) for rank in (1, 2, 3)},
    "aten.cumsum.default": partial(running, "sum"),
    "aten.cumprod.default": partial(running, "prod"),
    "aten.slice.Tensor": slices,
    "aten.select.int": select,
    "aten.chunk.default": chunk,
    "aten.split.Tensor": split,
    "aten.split.sizes": split_sizes,
    "aten.split_with_sizes.default": split_sizes,
    "aten.unbind.int": unbind,
    "aten.transpose.int": transpose,
    "aten.swapaxes.default": lambda self, axis0, axis1: transpose(self, axis0, axis1),
    "aten.narrow.default": lambda self, dim, start, length: narrow(self, dim, start, length),
    "aten.flip.default": flip,
    **{f"aten.adaptive_avg_pool{rank}d.default": partial(adaptive_avg_pool, rank) for rank in (1, 2, 3)},
    "aten.numpy_T.default": lambda self: permute(self, tuple(reversed(range(len(self.shape))))),
    "aten.mT.default": lambda self: transpose(self, -2, -1),
    "aten.triu.default": lambda self, diagonal=0: triangle("ge", self, diagonal),
    "aten.tril.default": lambda self, diagonal=0: triangle("le", self, diagonal),
    "aten.t.default": lambda self: permute(self, tuple(reversed(range(len(self.shape))))),
    "aten.permute.default": lambda self, dims: permute(self, dims),
    "aten.expand.default": expand_to,
    "aten.broadcast_to.default": expand_to,
    "aten.broadcast_tensors.default": broadcast_tensors,
    "aten.expand_as.default": lambda self, other: expand(self, broadcast_shape(other.shape)),
}
"""Other shapes of the same elements; views whose result shape says it all are in `RESHAPES`."""

RESHAPES = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "reshape.default", "_unsafe_view.default", "view_as.default", "flatten.using_ints"),
        *("unflatten.int", "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims"),
    )
)
SAME = frozenset(
    f"aten.{name}"
    for name in (
        *("clone.default", "contiguous.default", "alias.default", "detach.default", "to.dtype", "to.dtype_layout"),
        *("to.device", "_to_copy.default", "type_as.default", "lift_fresh_copy.default"),
    )
)
"""Operations whose result is their argument, in the result's type."""
FILLS: dict[str, Callable[..., Any]] = {
    "aten.zeros_like.default": lambda self: 0.0,
    "aten.empty_like.default": lambda self: 0.0,
    "aten.fill.Scalar": lambda self, value: value,
    "aten.ones_like.default": lambda self: 1.0,
    "aten.full_like.default": lambda self, fill_value: fill_value,
    "aten.full.default": lambda size, fill_value: fill_value,
    "aten.zeros.default": lambda size: 0.0,
    "aten.ones.default": lambda size: 1.0,
    "aten.scalar_tensor.default": lambda s: s,
}
"""Tensors of one number; their keyword arguments (type, device) are dropped."""
