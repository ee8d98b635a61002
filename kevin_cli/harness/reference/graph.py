"""A module and its inputs -> the ATen operations it performs, as `types.Graph`.

The graph is what plain `torch.export` gives: composite operations that mean one thing (`aten.layer_norm`,
`aten.rms_norm`, `aten.softmax.int`, `aten.gelu`, `aten.linear`, `aten.cross_entropy_loss`, ...) stay whole.
In-place operations are made functional; operations that do nothing (dropout in eval mode, detach, a cast to
the same type) are left out. Not every module can be traced: then there is a note instead of a graph.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import torch
from torch import fx, nn

from kevin_cli.harness.reference.faults import short_error
from kevin_cli.harness.reference.specs import dtype_name
from kevin_cli.types import Arg, ArgList, Graph, Node, NodeRef

SAME_VALUES = frozenset(
    {
        "aten.alias.default",
        "aten.clone.default",
        "aten.contiguous.default",
        "aten.detach.default",
        "aten.detach_.default",
        "aten.lift_fresh_copy.default",
        "aten.to.dtype",
        "aten.to.dtype_layout",
        "aten.to.device",
        "aten._to_copy.default",
    }
)
"""Operations that do nothing when type, shape and strides of their result are those of their argument."""
EXPANDED = (
    *("einsum", "triplet_margin_loss", "hinge_embedding_loss", "margin_ranking_loss", "cosine_embedding_loss"),
    *(
        "pairwise_distance",
        "norm",
        "frobenius_norm",
        "std_mean",
        "var_mean",
        "softmin",
        "logit",
        "softshrink",
        "tanhshrink",
    ),
    *("dist", "linalg_norm", "addmv", "trace", "diff", "nan_to_num", "movedim", "tensordot", "kron", "inner", "outer"),
)
"""Operations that say less than what they are made of: torch's own decompositions take their place."""
DROPOUTS = frozenset({"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"})


def trace(module: nn.Module, args: tuple[Any, ...], names: tuple[str, ...] = ()) -> tuple[Graph | None, str]:
    """The graph of `module(*args)`, or `None` and one line that says why there is none.

    The last arguments go by keyword where there are `names` for them.

    `module` may be left unusable by the tracer (attributes that a forward sets); give it an own instance.
    """
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            split = len(args) - len(names)
            keywords = dict(zip(names, args[split:], strict=True))
            program = torch.export.export(module, args[:split], keywords, strict=False)
            table = _expansions(program)
            if table or any(_is_mutable(node) for node in program.graph.nodes):
                program = program.run_decompositions(table)
    except Exception as error:  # noqa: BLE001 - whatever the tracer or the user's code raises, the task stays usable
        return None, f"torch.export cannot trace it: {short_error(error)}"
    if note := _mutation_note(program) or _shape_note(program):
        return None, note
    return _Reader(program, module).graph(), ""


def _expansions(program: torch.export.ExportedProgram) -> dict[Any, Any]:
    """The decompositions of those operations in the graph that are better read in parts."""
    found = {node.target for node in program.graph.nodes if op_name(node).split(".")[1:2] and _is_expanded(node)}
    known = torch.export.default_decompositions() if found else {}
    return {target: known[target] for target in found if target in known}


def _is_expanded(node: fx.Node) -> bool:
    return op_name(node).split(".")[1] in EXPANDED


def _is_mutable(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _mutation_note(program: torch.export.ExportedProgram) -> str:
    signature = program.graph_signature
    if signature.user_inputs_to_mutate:
        return "forward writes into its inputs"
    if signature.buffers_to_mutate:
        return f"forward writes into its buffer {next(iter(signature.buffers_to_mutate.values()))}"
    return ""


def _shape_note(program: torch.export.ExportedProgram) -> str:
    """`nonzero` and its likes have results whose size is known only when they run."""
    for node in program.graph.nodes:
        value = _tensor_of(node)
        if value is not None and not all(isinstance(size, int) for size in value.shape):
            return f"the shape of {op_name(node)} depends on values"
    return ""


class _Reader:
    """One pass over an exported program; `aliases` maps a node that does nothing to what it stands for."""

    def __init__(self, program: torch.export.ExportedProgram, module: nn.Module) -> None:
        self.program = program
        self.state_names = set(module.state_dict())
        self.aliases: dict[str, str] = {}
        self.num_inputs = 0

    def graph(self) -> Graph:
        nodes: list[Node] = []
        for node in self.program.graph.nodes:
            read = self._read(node)
            if read is not None:
                nodes.append(read)
        return Graph(nodes=tuple(nodes))

    def _read(self, node: fx.Node) -> Node | None:
        if node.op == "placeholder":
            return self._placeholder(node)
        if node.op == "output":
            leaves = [leaf for leaf in node.args[0] if isinstance(leaf, fx.Node) and _tensor_of(leaf) is not None]
            return Node(name="output", op="output", args=tuple(self._arg(leaf) for leaf in leaves))
        name = op_name(node)
        if "_assert_" in name:
            return None
        if self._does_nothing(node, name):
            source = node.args[0]
            assert isinstance(source, fx.Node)
            self.aliases[node.name] = self.aliases.get(source.name, source.name)
            return None
        keywords = tuple((key, self._arg(value)) for key, value in node.kwargs.items())
        return self._node(node, name, tuple(self._arg(arg) for arg in node.args), keywords)

    def _placeholder(self, node: fx.Node) -> Node | None:
        """Parameters, buffers and constants by name, tensor inputs by place; plain values are constants already."""
        signature = self.program.graph_signature
        if _tensor_of(node) is None:
            return None
        if node.name in signature.inputs_to_parameters:
            return self._node(node, "parameter", target=signature.inputs_to_parameters[node.name])
        if node.name in signature.inputs_to_buffers:
            target = signature.inputs_to_buffers[node.name]
            if target in self.state_names:
                return self._node(node, "buffer", target=target)
            return self._constant(node, target)
        if node.name in signature.inputs_to_lifted_tensor_constants:
            return self._constant(node, signature.inputs_to_lifted_tensor_constants[node.name])
        self.num_inputs += 1
        return self._node(node, "input", target=str(self.num_inputs - 1))

    def _constant(self, node: fx.Node, target: str) -> Node:
        """A tensor that is not in the `state_dict`; a single element is given as the node's argument."""
        value = self.program.constants.get(target)
        args: tuple[Arg, ...] = ()
        if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
            args = (value.item(),)
        return self._node(node, "constant", args, target=target)

    def _node(
        self,
        node: fx.Node,
        op: str,
        args: tuple[Arg, ...] = (),
        kwargs: tuple[tuple[str, Arg], ...] = (),
        target: str | None = None,
    ) -> Node:
        value = _tensor_of(node)
        if value is None:
            return Node(name=node.name, op=op, args=args, kwargs=kwargs, target=target)
        return Node(
            name=node.name,
            op=op,
            args=args,
            kwargs=kwargs,
            shape=tuple(int(size) for size in value.shape),
            dtype=dtype_name(value.dtype),
            strides=tuple(int(stride) for stride in value.stride()),
            target=target,
        )

    def _does_nothing(self, node: fx.Node, name: str) -> bool:
        if not node.args or not isinstance(node.args[0], fx.Node):
            return False
        if name in DROPOUTS:
            return len(node.args) > 2 and node.args[2] is False
        return name in SAME_VALUES and _form(node) == _form(node.args[0])

    def _arg(self, value: Any) -> Arg:
        if isinstance(value, fx.Node):
            return NodeRef(self.aliases.get(value.name, value.name))
        if isinstance(value, list | tuple):
            return ArgList(tuple(self._arg(item) for item in value))
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return str(value).removeprefix("torch.")


def op_name(node: fx.Node) -> str:
    """`aten.mul.Tensor` for an ATen operation, `getitem` for picking one of several results."""
    return "getitem" if node.target is operator.getitem else str(node.target)


def _tensor_of(node: fx.Node) -> torch.Tensor | None:
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None


def _form(node: fx.Node) -> tuple[object, ...] | None:
    value = _tensor_of(node)
    return None if value is None else (value.dtype, tuple(value.shape), tuple(value.stride()))
