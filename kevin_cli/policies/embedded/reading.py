"""A task's ATen graph -> values (`values.py`), or one sentence that says which operation stops it.

Composite operations are expanded, views become other shapes of the same value, and under the `library` rule
matrix products, convolutions and whatever is not understood become calls that stay with torch: a boundary, with
kernels before and after it. What it reads is exact: where an operator's result is a half-precision type, the value
is rounded there, as the reference rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kevin_cli.policies.embedded.composites import COMPOSITES
from kevin_cli.policies.embedded.details import Call, Tensor
from kevin_cli.policies.embedded.joins import sunk
from kevin_cli.policies.embedded.names import attribute, identifier, input_sources
from kevin_cli.policies.embedded.nested import nested
from kevin_cli.policies.embedded.operations import POINTWISE, REDUCTIONS
from kevin_cli.policies.embedded.products import PRODUCTS
from kevin_cli.policies.embedded.shapes import FILLS, RESHAPES, SAME, SHAPES
from kevin_cli.policies.embedded.space import contiguous_strides
from kevin_cli.policies.embedded.values import (
    FLOATS,
    INTEGERS,
    SEVERAL,
    RefusedError,
    Value,
    call,
    cast,
    constant,
    copy,
    expand,
    shared,
    tensor,
    view,
)
from kevin_cli.types import Arg, ArgList, DeviceKind, Node, NodeRef, Rules, Task

CALLS = {
    "aten.linear.default": "F.linear",
    "aten.matmul.default": "torch.matmul",
    "aten.mm.default": "torch.mm",
    "aten.bmm.default": "torch.bmm",
    "aten.addmm.default": "torch.addmm",
    "aten.conv1d.default": "F.conv1d",
    "aten.conv2d.default": "F.conv2d",
    "aten.conv3d.default": "F.conv3d",
}
"""How what stays with torch is called; others by their ATen names."""
DTYPES = frozenset((*FLOATS, *INTEGERS, "bool", "float64", "complex64", "complex128"))
TORCH_NAMES = ("dtype", "layout", "memory_format")
"""Keyword arguments whose value is the name of something in `torch`."""
CONVOLUTIONS = {
    1: ("aten.conv1d.default", "aten.conv_transpose1d.default"),
    2: ("aten.conv2d.default", "aten.conv_transpose2d.input"),
    3: ("aten.conv3d.default", "aten.conv_transpose3d.input"),
}
"""By the number of dimensions over which a filter moves."""
CHANNELS_LAST = (0, 2, 3, 1)
TABLES = (POINTWISE, REDUCTIONS, COMPOSITES, SHAPES, PRODUCTS)
Read = Value | tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """What the module computes: one value for each output, equal ones shared."""

    outputs: tuple[Value, ...]


def read(task: Task, rules: Rules, left: frozenset[str] = frozenset(), channels_last: bool = False) -> Program:
    """The whole module as values. `left`: names of nodes that are left to torch although they could be read.
    `channels_last`: whether two-dimensional convolutions that stay with torch are asked for in that order.

    Raises `RefusedError` with a sentence about what it can't do.
    """
    if task.graph is None:
        raise RefusedError(f"there is no graph of the module: {task.graph_note or 'it could not be traced'}")
    if task.contract.grad or task.training:
        raise RefusedError("gradients or training mode are asked for, and its kernels are forward-only")
    reader = _Reader(task, rules, left, channels_last)
    for node in task.graph.nodes:
        reader.add(node)
    return Program(shared(nested(sunk(shared(reader.outputs)))))


class _Reader:
    """Walks the nodes in execution order; `values` holds what each one gives."""

    def __init__(self, task: Task, rules: Rules, left: frozenset[str], channels_last: bool) -> None:
        self.rules = rules
        self.left = left
        self.channels_last = channels_last
        self.is_cuda = task.contract.device is DeviceKind.CUDA
        self.sources = input_sources(task)
        self.values: dict[str, Read] = {}
        self.outputs: tuple[Value, ...] = ()

    def add(self, node: Node) -> None:
        if node.op == "output":
            self.outputs = tuple(self._one(arg) for arg in node.args)
        else:
            self.values[node.name] = self._named(self._value(node), node)

    def _value(self, node: Node) -> Read:
        if node.op in ("input", "parameter", "buffer"):
            return self._tensor(node)
        if node.op == "constant":
            return self._constant(node)
        if node.op == "getitem":
            return self._item(node)
        return self._operation(node)

    def _item(self, node: Node) -> Value:
        """One of several results."""
        source, place = self._plain(node.args[0]), node.args[1]
        assert isinstance(place, int)
        if isinstance(source, Value):
            shape, dtype, strides = _form(node)
            return call(f"{{0}}[{place}]", (source,), shape, dtype, _kept_strides(shape, strides), node.name)
        item: Value = source[place]
        return item

    def _tensor(self, node: Node) -> Value:
        shape, dtype, strides = _form(node)
        assert node.target is not None
        if node.op == "input":
            name, source = self.sources[int(node.target)]
            return tensor(name, source, shape, dtype, strides)
        return tensor(identifier(node.target), attribute(node.target), shape, dtype, strides)

    def _constant(self, node: Node) -> Value:
        shape, dtype, _ = _form(node)
        if len(node.args) != 1 or not isinstance(node.args[0], int | float):
            raise RefusedError(f"forward uses the tensor constant {node.target or node.name} that is no parameter")
        number = node.args[0]
        return expand(constant(float(number) if dtype in FLOATS else number), shape)

    def _operation(self, node: Node) -> Read:
        stays = self.rules is Rules.LIBRARY and node.op in PRODUCTS
        if node.name in self.left:
            return self._call(node)
        if stays:
            return self._convolution(node) if self._splits_bias(node) else self._call(node)
        try:
            return self._understood(node)
        except RefusedError:
            if self.rules is not Rules.LIBRARY:
                raise
            return self._call(node)

    def _understood(self, node: Node) -> Read:
        """As values. Raises `RefusedError` for what is not written as kernels."""
        args = tuple(self._plain(arg) for arg in node.args)
        keywords = {key: self._plain(value) for key, value in node.kwargs}
        if node.op in RESHAPES:
            return view(args[0], _form(node)[0])
        if node.op in SAME:
            return _in_type(args[0], node)
        if node.op in FILLS:
            return expand(constant(FILLS[node.op](*args)), _form(node)[0])
        rule = next((table[node.op] for table in TABLES if node.op in table), None)
        if rule is None:
            raise RefusedError(f"it does not write {node.op} kernels")
        return _checked(_evaluated(rule, node, args, keywords), node)

    def _splits_bias(self, node: Node) -> bool:
        """On a GPU torch adds the bias of a convolution in a pass of its own: the kernel that follows can do that."""
        rank = len(node.shape or ()) - 2
        is_known = node.op in CONVOLUTIONS[rank] if rank in CONVOLUTIONS else False
        is_float = node.dtype in FLOATS
        return self.is_cuda and is_known and is_float and not {"bias", "input"} & {key for key, _ in node.kwargs}

    def _convolution(self, node: Node) -> Value:
        args = [self._plain(arg) for arg in node.args]
        bias = args[2] if len(args) > 2 else None
        if len(args) > 2:
            args[2] = None
        strides = _last(_form(node)[0]) if self.channels_last and len(args[0].shape) == 4 else None
        if strides is not None:
            args[0] = _in_order(args[0], _last(args[0].shape))
        result = self._called(node, args, strides)
        if bias is None:
            return result
        named = replace(result, name=f"{identifier(node.name)}_plain")
        shifted = named + view(bias, (bias.shape[0], *(1,) * (len(result.shape) - 2)))
        return _in_type(shifted, node)

    def _call(self, node: Node) -> Value:
        if self.rules is not Rules.LIBRARY:
            raise RefusedError(f"it leaves {node.op} to torch, which --rules kernels forbids")
        return self._called(node, [self._plain(arg) for arg in node.args])

    def _called(self, node: Node, args: list[Any], order: tuple[int, ...] | None = None) -> Value:
        """A call to torch; `order`: the strides that its result has, where they are not those of the graph."""
        operands: list[Value] = []
        texts = [_call_text(arg, operands) for arg in args]
        for key, value in node.kwargs:
            plain = self._plain(value)
            is_name = isinstance(plain, str) and key in TORCH_NAMES
            texts.append(f"{key}={f'torch.{plain}' if is_name else _call_text(plain, operands)}")
        text = f"{CALLS.get(node.op, f'torch.ops.{node.op}')}({', '.join(texts)})"
        if node.shape is None:
            return call(text, tuple(operands), (), SEVERAL, (), node.name)
        shape, dtype, strides = _form(node)
        kept = _kept_strides(shape, strides) if order is None else order
        return call(text, tuple(operands), shape, dtype, kept, node.name)

    def _plain(self, arg: Arg) -> Any:
        """Node references as values, lists as tuples, numbers as they are."""
        if isinstance(arg, NodeRef):
            return self.values[arg.node]
        if isinstance(arg, ArgList):
            return tuple(self._plain(item) for item in arg.items)
        return arg

    def _one(self, arg: Arg) -> Value:
        value = self._plain(arg)
        if not isinstance(value, Value):
            raise RefusedError("forward returns something that is not one tensor")
        return value

    def _named(self, read: Read, node: Node) -> Read:
        if isinstance(read, Value) and not read.name:
            return replace(read, name=identifier(node.name))
        return read


def _form(node: Node) -> tuple[tuple[int, ...], str, tuple[int, ...]]:
    if node.shape is None or node.dtype is None or node.strides is None:
        raise RefusedError(f"the shape of {node.op} ({node.name}) is not known")
    return node.shape, node.dtype, node.strides


def _kept_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Channels-last where torch's result is, else contiguous: the two orders that can be asked for by name."""
    plain = contiguous_strides(shape)
    if len(shape) == 4 and strides != plain:
        last = _last(shape)
        return last if strides == last else plain
    return plain


def _last(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a channels-last tensor of four dimensions."""
    inner = contiguous_strides(tuple(shape[dim] for dim in CHANNELS_LAST))
    return tuple(inner[CHANNELS_LAST.index(dim)] for dim in range(4))


def _in_order(value: Value, strides: tuple[int, ...]) -> Value:
    """A tensor that lies in memory in that order: itself where it does so already, else a copy."""
    detail = value.detail
    if isinstance(detail, Tensor | Call) and detail.strides == strides:
        return value
    return replace(copy(value, strides), name=f"{value.name or value.op}_channels_last")


def _evaluated(rule: Callable[..., Read], node: Node, args: tuple[Any, ...], keywords: dict[str, Any]) -> Read:
    try:
        return rule(*args, **keywords)
    except TypeError as error:
        raise RefusedError(f"it does not know {node.op} with these arguments ({error})") from error
    except RefusedError as error:
        raise RefusedError(f"{node.op}: {error}") from error


def _checked(read: Read, node: Node) -> Read:
    """Rounded to the operator's result type; a result of another shape is a mistake in a rule."""
    if isinstance(read, tuple):
        return read
    if read.shape != _form(node)[0]:
        raise RefusedError(f"{node.op} gives shape {_form(node)[0]} where {read.shape} was expected")
    return _in_type(read, node)


def _in_type(value: Value, node: Node) -> Value:
    dtype = _form(node)[1]
    if dtype == value.dtype:
        return value
    if dtype not in (*FLOATS, "int64", "bool"):
        raise RefusedError(f"{node.op} gives {dtype}, which it does not write")
    return cast(value, dtype)


def _call_text(arg: Any, operands: list[Value]) -> str:
    if isinstance(arg, Value):
        operands.append(arg)
        return f"{{{len(operands) - 1}}}"
    if isinstance(arg, tuple):
        return f"[{', '.join(_call_text(item, operands) for item in arg)}]"
    if isinstance(arg, float) and not math.isfinite(arg):
        return f'float("{arg}")'
    return f"torch.{arg}" if arg in DTYPES else repr(arg)
