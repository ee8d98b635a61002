"""What a task must at least move, and whether it computes anything at all, read from its graph.

`compulsory_bytes` is a lower bound: every input and parameter that is used is read once, every output
written once, operands that are only looked up (embedding, gather, slices) count what is taken from them.
Caches may hold some of it, so the bound is for working sets larger than the cache. Without a graph every
input and parameter counts, which may be too much: then it is an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kevin_cli.types import Arg, ArgList, Graph, Node, NodeRef, Task, TensorSpec

VIEW_NAMES = """
    view reshape _unsafe_view view_as reshape_as expand expand_as broadcast_to permute transpose t numpy_T mT
    movedim swapaxes squeeze unsqueeze flatten unflatten slice select narrow chunk split split_with_sizes
    tensor_split unbind getitem unfold diagonal as_strided alias detach
"""
VIEWS = frozenset(VIEW_NAMES.split())
"""Operations that only look at memory in another way."""
LOOKUPS = VIEWS | {"embedding", "index", "index_select", "gather", "take", "take_along_dim"}
"""Operations that need not read all of their first tensor."""
SOURCES = frozenset({"input", "parameter", "buffer", "constant"})


def has_compute(task: Task) -> bool:
    """False when the graph only passes tensors on or looks at them in another shape; True when unknown."""
    if all(math.prod(spec.shape) == 0 for spec in task.output_specs):
        return False
    if task.graph is None:
        return True
    return any(not _is_free(node) for node in _live(task.graph))


def compulsory_bytes(task: Task) -> int:
    """Bytes that any implementation must read and write in one call."""
    written = sum(_bytes(spec) for spec in task.output_specs)
    if task.graph is None:
        read = sum(_bytes(spec) for spec in task.contract.inputs)
        return written + read + sum(_size(p.dtype) * math.prod(p.shape) for p in task.parameters)
    written -= sum(_result_bytes(node) for node in _passed_on(task.graph))
    read = sum(_read_bytes(node, task.graph) for node in _live(task.graph) if node.op in SOURCES)
    return max(0, written) + read


def base_op(node: Node) -> str:
    """`aten.mul.Tensor` -> `mul`; the words for inputs and outputs as they are."""
    parts = node.op.split(".")
    return parts[1] if len(parts) > 1 else node.op


def _is_free(node: Node) -> bool:
    return node.op in SOURCES or node.op == "output" or base_op(node) in VIEWS


def _live(graph: Graph) -> list[Node]:
    """The nodes that the output depends on."""
    by_name = {node.name: node for node in graph.nodes}
    needed: set[str] = set()
    todo = [node.name for node in graph.nodes if node.op == "output"]
    while todo:
        name = todo.pop()
        if name not in needed and name in by_name:
            needed.add(name)
            todo += references(by_name[name])
    return [node for node in graph.nodes if node.name in needed]


def references(node: Node) -> Iterator[str]:
    """The names of the nodes whose results `node` takes."""
    for arg in (*node.args, *(value for _, value in node.kwargs)):
        yield from _names_in(arg)


def _names_in(arg: Arg) -> Iterator[str]:
    if isinstance(arg, NodeRef):
        yield arg.node
    elif isinstance(arg, ArgList):
        for item in arg.items:
            yield from _names_in(item)


def _passed_on(graph: Graph) -> list[Node]:
    """Outputs that are inputs or parameters seen in another shape: nobody need write them."""
    by_name = {node.name: node for node in graph.nodes}

    def is_passed_on(node: Node) -> bool:
        if node.op in SOURCES:
            return True
        return base_op(node) in VIEWS and all(is_passed_on(by_name[name]) for name in references(node))

    outputs = [name for node in graph.nodes if node.op == "output" for name in references(node)]
    return [by_name[name] for name in outputs if is_passed_on(by_name[name])]


def _read_bytes(source: Node, graph: Graph) -> int:
    """All of a source, or only what is looked up in it when nobody reads the whole."""
    users = [node for node in _live(graph) if source.name in references(node) and node.op != "output"]
    if not all(base_op(user) in LOOKUPS and user.args[:1] == (NodeRef(source.name),) for user in users):
        return _result_bytes(source)
    if any(user.shape is None for user in users):  # several results (chunk, split): together all of it
        return _result_bytes(source)
    return min(_result_bytes(source), sum(_result_bytes(user) for user in users))


def _result_bytes(node: Node) -> int:
    if node.shape is None or node.dtype is None:
        return 0
    strides = node.strides or tuple(1 for _ in node.shape)
    return _bytes(TensorSpec(shape=node.shape, dtype=node.dtype, strides=strides))


def _bytes(spec: TensorSpec) -> int:
    """Distinct bytes of a tensor: dimensions of stride 0 repeat the same memory."""
    sizes = [size for size, stride in zip(spec.shape, spec.strides, strict=True) if stride != 0 or size == 0]
    return _size(spec.dtype) * math.prod(sizes)


def _size(dtype: str) -> int:
    """Bytes of one element: `bfloat16` -> 2, `float8_e4m3fn` -> 1, `bool` -> 1."""
    if dtype == "bool":
        return 1
    digits = "".join(char for char in dtype.replace("bfloat", "float").split("_")[0] if char.isdigit())
    return max(1, int(digits or "8") // 8)
