"""Reductions over everything, taken in two steps where a part of what they reduce is reduced along rows already.

The mean over a batch of a loss that needs each row's log-sum-exp would otherwise be two kernels that both read all
of the input: nothing that spans all rows can be in the kernel that works row by row. Its sum over the columns can.
"""

from __future__ import annotations

from dataclasses import replace

from kevin_cli.policies.embedded.details import Reduction
from kevin_cli.policies.embedded.values import Value, reduce, topological


def nested(roots: tuple[Value, ...]) -> tuple[Value, ...]:
    """The same values with such reductions in two steps."""
    new: dict[Value, Value] = {}
    for value in topological(roots):
        operands = tuple(new[operand] for operand in value.operands)
        same = all(a is b for a, b in zip(operands, value.operands, strict=True))
        copy = value if same else replace(value, operands=operands)
        new[value] = _in_two_steps(copy) if value.op == "reduce" else copy
    return tuple(new[root] for root in roots)


def _in_two_steps(value: Value) -> Value:
    outer, operand = _reduction(value), value.operands[0]
    for inner in topological((operand,)):
        if inner.op != "reduce" or inner.operands[0].shape != operand.shape:
            continue
        dims = _reduction(inner).dims
        if set(dims) < set(outer.dims):
            rest = [dim for dim in outer.dims if dim not in dims]
            left = tuple(dim - sum(d < dim for d in dims) for dim in rest)
            return replace(reduce(outer.op, reduce(outer.op, operand, dims), left), name=value.name)
    return value


def _reduction(value: Value) -> Reduction:
    assert isinstance(value.detail, Reduction)
    return value.detail
