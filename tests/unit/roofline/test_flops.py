"""Operations of a graph, against numbers worked by hand: a multiplication and an addition are two."""

from __future__ import annotations

import pytest
from roofline_samples import graph, operation, tensor

from kevin_cli.harness.flops import count_flops, float32_kinds
from kevin_cli.types import ArgList, Node, NodeRef

A, B = tensor("a", 3, 5), tensor("b", 5, 7)
BATCH_A, BATCH_B = tensor("a", 2, 3, 5), tensor("b", 2, 5, 7)
WORKED = {
    "a product of 3×5 and 5×7": ((A, B), operation("aten.mm.default", "@a", "@b"), 2 * 3 * 5 * 7),
    "matmul broadcasts its batch": (
        (tensor("a", 4, 1, 3, 5), BATCH_B),
        operation("aten.matmul.default", "@a", "@b"),
        4 * 2 * 2 * 3 * 5 * 7,
    ),
    "a matrix and a vector": ((A, tensor("b", 5)), operation("aten.matmul.default", "@a", "@b"), 2 * 3 * 5),
    "two of them": ((BATCH_A, BATCH_B), operation("aten.bmm.default", "@a", "@b"), 2 * 2 * 3 * 5 * 7),
    "addmm takes its bias first": (
        (tensor("bias", 7), A, B),
        operation("aten.addmm.default", "@bias", "@a", "@b"),
        2 * 3 * 5 * 7,
    ),
    "linear has N×K weights": (
        (tensor("x", 2, 3, 5), tensor("w", 7, 5)),
        operation("aten.linear.default", "@x", "@w"),
        2 * (2 * 3) * 5 * 7,
    ),
    "a convolution": (
        (tensor("x", 1, 3, 9, 9), tensor("w", 4, 3, 3, 3)),
        operation("aten.conv2d.default", "@x", "@w", shape=(1, 4, 7, 7)),
        2 * (4 * 7 * 7) * (3 * 3 * 3),
    ),
    "a convolution in groups": (
        (tensor("x", 1, 4, 9), tensor("w", 4, 1, 3)),
        operation("aten.conv1d.default", "@x", "@w", shape=(1, 4, 7)),
        2 * (4 * 7) * 3,
    ),
    "a transposed convolution": (
        (tensor("x", 1, 3, 9, 9), tensor("w", 3, 4, 3, 3)),
        operation("aten.conv_transpose2d.input", "@x", "@w", shape=(1, 4, 11, 11)),
        2 * (3 * 9 * 9) * (4 * 3 * 3),
    ),
    "attention": (
        (tensor("q", 2, 8, 10, 16), tensor("k", 2, 8, 12, 16), tensor("v", 2, 8, 12, 20)),
        operation("aten.scaled_dot_product_attention.default", "@q", "@k", "@v"),
        2 * 16 * 10 * 12 * (16 + 20),
    ),
    "causal attention is half of it": (
        (tensor("q", 1, 10, 16),),
        operation("aten.scaled_dot_product_attention.default", "@q", "@q", "@q", None, 0.0, True),
        2 * 10 * 10 * 32 // 2,
    ),
    "einsum of two": (
        (tensor("a", 2, 3, 5), tensor("b", 2, 7, 5)),
        operation("aten.einsum.default", "bij,bkj->bik", ArgList((NodeRef("a"), NodeRef("b")))),
        2 * 2 * 3 * 5 * 7,
    ),
    "elementwise work is not counted": ((A,), operation("aten.relu.default", "@a", shape=(3, 5)), 0),
}


@pytest.mark.parametrize(("inputs", "node", "expected"), WORKED.values(), ids=WORKED)
def test_worked_numbers(inputs: tuple[Node, ...], node: Node, expected: int) -> None:
    assert count_flops(graph(*inputs, node)) == ({"float32": expected} if expected else {})


def test_each_dtype_is_counted_apart() -> None:
    half = Node(
        name="h", op="aten.mm.default", args=(NodeRef("c"), NodeRef("d")), shape=(3, 7), dtype="bfloat16", target=None
    )
    nodes = (A, B, tensor("c", 3, 5, dtype="bfloat16"), tensor("d", 5, 7, dtype="bfloat16"), half)
    assert count_flops(graph(*nodes, operation("aten.mm.default", "@a", "@b"))) == {"float32": 210, "bfloat16": 210}


def test_an_ellipsis_in_einsum_counts_nothing() -> None:
    node = operation("aten.einsum.default", "...ij,kj->...ik", ArgList((NodeRef("a"), NodeRef("b"))))
    assert count_flops(graph(tensor("a", 2, 3, 5), tensor("b", 7, 5), node)) == {}


@pytest.mark.parametrize(
    ("nodes", "kinds"),
    [
        ((A, B, operation("aten.mm.default", "@a", "@b")), (True, False)),
        ((A, B, operation("aten.mm.default", "@a", "@b", dtype="bfloat16")), (False, False)),
        (
            (
                tensor("x", 1, 3, 9, 9),
                tensor("w", 4, 3, 3, 3),
                operation("aten.conv2d.default", "@x", "@w", shape=(1, 4, 7, 7)),
            ),
            (False, True),
        ),
        ((A, operation("aten.relu.default", "@a", shape=(3, 5))), (False, False)),
    ],
)
def test_a_setting_of_tf32_matters_for_products_or_for_convolutions_of_float32(
    nodes: tuple[Node, ...], kinds: tuple[bool, bool]
) -> None:
    assert float32_kinds(graph(*nodes)) == kinds


def test_without_a_graph_both_may_be_there() -> None:
    assert float32_kinds(None) == (True, True)
