"""Floating-point operations of a task, counted from its graph: products, convolutions, attention.

A multiplication and an addition count as two. Only what is computed on dense operands is counted, by the
usual formulas (2·M·N·K for a product of M×K and K×N); elementwise work is not, since memory limits it long
before. Operations that are not known here count nothing, so the sum is a lower bound for the usual
algorithms; Winograd's, Strassen's or an algebraic simplification can need less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from kevin_cli.types import Arg, ArgList, Graph, Node, NodeRef

Shape = tuple[int, ...]
Nodes = Mapping[str, Node]


def count_flops(graph: Graph) -> dict[str, int]:
    """Operations by the dtype they are computed in: `{"float32": 137438953472}`."""
    nodes = {node.name: node for node in graph.nodes}
    found: Counter[str] = Counter()
    for node in graph.nodes:
        count = _count(node, nodes)
        if count:
            found[node.dtype or _first_dtype(node, nodes)] += count
    return dict(found)


def float32_kinds(graph: Graph | None) -> tuple[bool, bool]:
    """Whether there are products, and convolutions, of float32: what a setting of TF32 changes. Both, if unknown."""
    if graph is None:
        return True, True
    nodes = {node.name: node for node in graph.nodes}
    found = [node for node in graph.nodes if _count(node, nodes) and (node.dtype or "float32") == "float32"]
    convolutions = ["conv" in op_word(node) for node in found]
    return not all(convolutions), any(convolutions)


def op_word(node: Node) -> str:
    """`aten.mul.Tensor` -> `mul`."""
    parts = node.op.split(".")
    return parts[1] if len(parts) > 1 else node.op


def _count(node: Node, nodes: Nodes) -> int:
    formula = FORMULAS.get(op_word(node))
    return formula(node, nodes) if formula else 0


def _shape(arg: Arg, nodes: Nodes) -> Shape:
    """The shape of an argument's tensor; a scalar's when it is none."""
    found = nodes.get(arg.node) if isinstance(arg, NodeRef) else None
    return found.shape or () if found else ()


def _first_dtype(node: Node, nodes: Nodes) -> str:
    first = next((nodes[arg.node] for arg in node.args if isinstance(arg, NodeRef)), None)
    return (first.dtype if first else None) or "float32"


def _product(left: Shape, right: Shape) -> int:
    """torch.matmul: batch dimensions broadcast, vectors on either side."""
    if not left or not right:
        return 0
    columns = right[-1] if len(right) > 1 else 1
    rows = left[-2] if len(left) > 1 else 1
    return 2 * _broadcast(left[:-2], right[:-2]) * rows * left[-1] * columns


def _broadcast(left: Shape, right: Shape) -> int:
    """How many elements two batch shapes have together."""
    depth = max(len(left), len(right))
    pairs = zip((1,) * (depth - len(left)) + left, (1,) * (depth - len(right)) + right, strict=True)
    return math.prod(max(pair) for pair in pairs)


def _matmul(node: Node, nodes: Nodes) -> int:
    return _product(_shape(node.args[0], nodes), _shape(node.args[1], nodes))


def _add_matmul(node: Node, nodes: Nodes) -> int:
    """addmm(bias, a, b)."""
    return _product(_shape(node.args[1], nodes), _shape(node.args[2], nodes))


def _linear(node: Node, nodes: Nodes) -> int:
    """y = x Wᵀ with W of N×K: 2·K·N for each row of x."""
    weight = _shape(node.args[1], nodes)
    return 2 * math.prod(_shape(node.args[0], nodes)) * (weight[0] if len(weight) > 1 else 1)


def _convolution(node: Node, nodes: Nodes) -> int:
    """Each output element is a sum over the input channels of its group and the window."""
    if len(node.args) > 6 and node.args[6] is True:  # aten.convolution(..., transposed=True, ...)
        return _transposed(node, nodes)
    return 2 * math.prod(node.shape or ()) * math.prod(_shape(node.args[1], nodes)[1:])


def _transposed(node: Node, nodes: Nodes) -> int:
    """Each input element goes into the output channels of its group and the window."""
    return 2 * math.prod(_shape(node.args[0], nodes)) * math.prod(_shape(node.args[1], nodes)[1:])


def _attention(node: Node, nodes: Nodes) -> int:
    """QKᵀ and its product with V: 2·B·L·S·(E + Ev), half of it when it is causal."""
    query, key, value = (_shape(arg, nodes) for arg in node.args[:3])
    if min(len(query), len(key), len(value)) < 2:
        return 0
    whole = 2 * math.prod(query[:-2]) * query[-2] * key[-2] * (query[-1] + value[-1])
    causal = dict(node.kwargs).get("is_causal", node.args[5] if len(node.args) > 5 else False)
    return whole // 2 if causal is True else whole


def _einsum(node: Node, nodes: Nodes) -> int:
    """A product of two: 2 × the sizes of all letters. More operands, or `...`, count nothing."""
    equation, operands = node.args[0], node.args[1]
    if not isinstance(equation, str) or not isinstance(operands, ArgList) or len(operands.items) != 2:
        return 0
    names = equation.replace(" ", "").split("->")[0].split(",")
    shapes = [_shape(operand, nodes) for operand in operands.items]
    if [len(name) for name in names] != [len(shape) for shape in shapes]:
        return 0
    sizes = {letter: size for name, shape in zip(names, shapes, strict=True) for letter, size in zip(name, shape)}  # noqa: B905
    return 2 * math.prod(sizes.values())


FORMULAS: dict[str, Callable[[Node, Nodes], int]] = {
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot"), _matmul),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), _add_matmul),
    "linear": _linear,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed),
    "scaled_dot_product_attention": _attention,
    "einsum": _einsum,
}
