"""Matrix products, convolutions and attention as sums over broadcast products: what own kernels are written from.

Nothing here is materialised: the kernel writers see that both factors are shared by many results and work in tiles.
A convolution looks its windows up by computed places; places outside of the input count as zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from kevin_cli.policies.embedded.details import Shape
from kevin_cli.policies.embedded.norms import softmax
from kevin_cli.policies.embedded.operations import Dims, Rule, total, where
from kevin_cli.policies.embedded.values import INTEGERS, RefusedError, Value, apply, cast, index, permute, pick, view


def matmul(self: Value, other: Value) -> Value:
    """As torch: vectors become matrices, leading dimensions are broadcast."""
    if self.dtype in INTEGERS or other.dtype in INTEGERS:
        raise RefusedError("a matrix product of integers")
    if len(other.shape) == 1:
        product = matmul(self, view(other, (other.shape[0], 1)))
        return view(product, product.shape[:-1])
    if len(self.shape) == 1:
        product = matmul(view(self, (1, self.shape[0])), other)
        return view(product, (*product.shape[:-2], product.shape[-1]))
    turned = permute(other, (*range(len(other.shape) - 2), -1, -2))
    left = view(self, (*self.shape[:-1], 1, self.shape[-1]))
    right = view(turned, (*turned.shape[:-2], 1, *turned.shape[-2:]))
    return total(left * right, -1)


def linear(input: Value, weight: Value, bias: Value | None = None) -> Value:
    left = view(input, (*input.shape[:-1], 1, input.shape[-1]))
    product = total(left * weight, -1)
    return product if bias is None else product + bias


def addmm(self: Value, mat1: Value, mat2: Value, beta: float = 1, alpha: float = 1) -> Value:
    product = matmul(mat1, mat2)
    scaled = product if alpha == 1 else product * float(alpha)
    return scaled + (self if beta == 1 else self * float(beta))


# --- convolutions ----------------------------------------------------------------------------------


def _each(value: Dims, rank: int) -> tuple[int, ...]:
    given = (value,) if isinstance(value, int) else tuple(value or ())
    return given * rank if len(given) == 1 else given


def _windows(x: Value, places: Sequence[tuple[Value, Value | None]]) -> Value:
    """The last dimensions looked up by places [out, window]: (..., out, window, out, window, ...), zero outside."""
    rank = len(places)
    lead = len(x.shape) - rank
    found, masks = x, []
    for dim, (where_to, inside) in enumerate(places):
        safe = where_to if inside is None else where(inside, where_to, 0)
        found = pick(found, safe, lead + 2 * dim, whole=True, is_safe=True)
        if inside is not None:
            masks.append(view(inside, (*inside.shape, *(1,) * (2 * (rank - dim - 1)))))
    for mask in masks:
        found = where(mask, found, 0.0)
    return found


def _forward_places(out: int, window: int, step: int, before: int, gap: int, extent: int) -> tuple[Value, Value | None]:
    outs, entries = view(index(out), (out, 1)), index(window)
    places = apply("sub", apply("add", apply("mul", outs, step), apply("mul", entries, gap)), before)
    is_inside = before == 0 and (out - 1) * step + (window - 1) * gap < extent
    return places, None if is_inside else _within(places, extent)


def _backward_places(out: int, window: int, step: int, before: int, gap: int, extent: int) -> tuple[Value, Value]:
    """For transposed convolutions: where an output's window entry comes from, if it comes from anywhere."""
    outs, entries = view(index(out), (out, 1)), index(window)
    spread = apply("sub", apply("add", outs, before), apply("mul", entries, gap))
    places = cast(apply("floor", apply("div", cast(spread, "float32"), float(step))), "int64")
    is_whole = apply("eq", apply("mul", places, step), spread)
    return places, apply("and", is_whole, _within(places, extent))


def _within(places: Value, extent: int) -> Value:
    return apply("and", apply("ge", places, 0), apply("lt", places, extent))


def _convolved(windows: Value, weight: Value, bias: Value | None, groups: int, outs: Shape) -> Value:
    """`windows`: (batch, channels, out, window, ...); `weight`: (channels out, channels in a group, window...)."""
    rank = len(outs)
    batch, channels = windows.shape[:2]
    sizes = weight.shape[2:]
    pairs = [size for pair in zip(outs, sizes, strict=True) for size in pair]
    split = view(windows, (batch, groups, channels // groups, *pairs))
    places = [3 + 2 * dim for dim in range(rank)]
    order = (0, 1, *places, 2, *(place + 1 for place in places))
    left = permute(split, order)
    left = view(left, (batch, groups, 1, *outs, channels // groups, *sizes))
    right = view(weight, (groups, weight.shape[0] // groups, *(1,) * rank, *weight.shape[1:]))
    product = view(total(left * right, tuple(range(-rank - 1, 0))), (batch, weight.shape[0], *outs))
    return product if bias is None else product + view(bias, (weight.shape[0], *(1,) * rank))


def convolution(
    rank: int,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Dims = 1,
    padding: Dims | str = 0,
    dilation: Dims = 1,
    groups: int = 1,
) -> Value:
    if isinstance(padding, str):
        raise RefusedError(f"a convolution with padding '{padding}'")
    steps, before, gaps = (_each(item, rank) for item in (stride, padding, dilation))
    extent, sizes = input.shape[2:], weight.shape[2:]
    ends = list(zip(extent, sizes, steps, before, gaps, strict=True))
    outs = tuple((n + 2 * p - g * (k - 1) - 1) // s + 1 for n, k, s, p, g in ends)
    places = [_forward_places(o, k, s, p, g, n) for o, (n, k, s, p, g) in zip(outs, ends, strict=True)]
    return _convolved(_windows(input, places), weight, bias, groups, outs)


def transposed(
    rank: int,
    input: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Dims = 1,
    padding: Dims = 0,
    output_padding: Dims = 0,
    groups: int = 1,
    dilation: Dims = 1,
) -> Value:
    steps, before, extra, gaps = (_each(item, rank) for item in (stride, padding, output_padding, dilation))
    extent, sizes = input.shape[2:], weight.shape[2:]
    ends = list(zip(extent, sizes, steps, before, gaps, extra, strict=True))
    outs = tuple((n - 1) * s - 2 * p + g * (k - 1) + e + 1 for n, k, s, p, g, e in ends)
    places = [_backward_places(o, k, s, p, g, n) for o, (n, k, s, p, g, _) in zip(outs, ends, strict=True)]
    channels = weight.shape[0]
    grouped = view(weight, (groups, channels // groups, *weight.shape[1:]))
    turned = permute(grouped, (0, 2, 1, *range(3, 3 + rank)))
    turned = view(turned, (groups * weight.shape[1], channels // groups, *sizes))
    return _convolved(_windows(input, places), turned, bias, groups, outs)


def attention(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if dropout_p or enable_gqa:
        raise RefusedError("attention with dropout or grouped heads")
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query, permute(key, (*range(len(key.shape) - 2), -1, -2))) * float(factor)
    if is_causal:
        rows, columns = scores.shape[-2:]
        is_past = apply("le", index(columns), view(index(rows), (rows, 1)))
        scores = where(is_past, scores, -math.inf)
    if attn_mask is not None:
        scores = where(attn_mask, scores, -math.inf) if attn_mask.kind == "bool" else scores + attn_mask
    return matmul(softmax(scores, -1), value)


PRODUCTS: dict[str, Rule] = {
    "aten.matmul.default": matmul,
    "aten.mm.default": lambda self, mat2: matmul(self, mat2),
    "aten.bmm.default": lambda self, mat2: matmul(self, mat2),
    "aten.mv.default": lambda self, vec: matmul(self, vec),
    "aten.dot.default": lambda self, tensor: total(self * tensor, -1),
    "aten.linear.default": linear,
    "aten.addmm.default": addmm,
    "aten.baddbmm.default": lambda self, batch1, batch2, beta=1, alpha=1: addmm(self, batch1, batch2, beta, alpha),
    **{f"aten.conv{rank}d.default": partial(convolution, rank) for rank in (1, 2, 3)},
    "aten.conv_transpose1d.default": partial(transposed, 1),
    "aten.conv_transpose2d.input": partial(transposed, 2),
    "aten.conv_transpose3d.input": partial(transposed, 3),
    "aten.scaled_dot_product_attention.default": attention,
}
"""What own kernels compute under the `kernels` rule; under `library` it stays with torch."""
