"""Joins (`cat`, `stack`) moved down to where a tensor has to exist: what comes after them is done on their parts.

`relu(cat(a, b)) * scale` becomes `cat(relu(a) * scale, relu(b) * scale)`, so that every part is one kernel that
writes its own slice of the result, and the joined tensor is never read back. Slices of a join that lie inside one
part become slices of that part.
"""

from __future__ import annotations

from dataclasses import replace

from kevin_cli.policies.embedded.details import Join, Order, Slice
from kevin_cli.policies.embedded.values import Value, join, narrow, topological

MAX_PARTS = 8
"""Joins of more parts stay where they are."""
STAYS = frozenset(
    {"join", "reduce", "call", "copy", "scan", "window", "pick", "view", "expand", "tensor", "index", "constant"}
)


def sunk(roots: tuple[Value, ...]) -> tuple[Value, ...]:
    """The same values with every join as late as possible."""
    new: dict[Value, Value] = {}
    for value in topological(roots):
        operands = tuple(new[operand] for operand in value.operands)
        same = all(a is b for a, b in zip(operands, value.operands, strict=True))
        copy = value if same else replace(value, operands=operands)
        new[value] = _moved(copy)
    return tuple(new[root] for root in roots)


def _moved(value: Value) -> Value:
    joins = [operand for operand in value.operands if operand.op == "join"]
    if not joins or value.op in STAYS:
        return value
    if value.op == "narrow":
        return _sliced(value, joins[0])
    if value.op == "permute":
        return _turned(value, joins[0])
    return _spread(value, joins)


def _spread(value: Value, joins: list[Value]) -> Value:
    """An operation on each element, done on each part."""
    first = joins[0]
    from_end = _dim(first) - len(first.shape)
    if len(first.operands) > MAX_PARTS or not all(_same_parts(first, from_end, other) for other in joins):
        return value
    parts, start = [], 0
    for part in first.operands:
        size = part.shape[from_end]
        operands = tuple(_part(operand, from_end, start, size) for operand in value.operands)
        shape = list(value.shape)
        shape[from_end] = size
        parts.append(replace(value, operands=operands, shape=tuple(shape)))
        start += size
    return replace(join(tuple(parts), len(value.shape) + from_end), name=value.name)


def _same_parts(one: Value, from_end: int, other: Value) -> bool:
    """Whether two joins are cut at the same places, counted from the last dimension."""
    sizes = [part.shape[from_end] for part in one.operands]
    is_same_dim = _dim(other) - len(other.shape) == from_end
    return is_same_dim and [part.shape[from_end] for part in other.operands] == sizes


def _part(operand: Value, from_end: int, start: int, size: int) -> Value:
    """The part of an operand that goes with one part of the join; what is broadcast goes with all."""
    if len(operand.shape) < -from_end or operand.shape[from_end] == 1:
        return operand
    if operand.op == "join" and _dim(operand) - len(operand.shape) == from_end:
        at = 0
        for part in operand.operands:
            if at == start and part.shape[from_end] == size:
                return part
            at += part.shape[from_end]
    return narrow(operand, from_end, start, size)


def _sliced(value: Value, joined: Value) -> Value:
    assert isinstance(value.detail, Slice)
    if value.detail.dim != _dim(joined):
        return value
    start, size, at = value.detail.start, value.shape[value.detail.dim], 0
    for part in joined.operands:
        length = part.shape[value.detail.dim]
        if at <= start and start + size <= at + length:
            return narrow(part, value.detail.dim, start - at, size)
        at += length
    return value


def _turned(value: Value, joined: Value) -> Value:
    assert isinstance(value.detail, Order)
    dims = value.detail.dims
    parts = tuple(
        replace(value, operands=(part,), shape=tuple(part.shape[dim] for dim in dims)) for part in joined.operands
    )
    return replace(join(parts, dims.index(_dim(joined))), name=value.name)


def _dim(joined: Value) -> int:
    assert isinstance(joined.detail, Join)
    return joined.detail.dim
