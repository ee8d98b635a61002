"""What is optimised: a module lowered to values, the contract it holds in, and its graph.

Workers and policies see only this; the user's own classes stay in the user's process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kevin_cli.types.words import DeviceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """What values a tensor takes, inferred from the user's own inputs; drawn values stay inside."""

    kind: Literal["real", "non_negative", "positive", "unit", "integer", "boolean"]
    low: float
    """Smallest value seen (for `integer`: inclusive)."""
    high: float
    """Largest value seen (for `integer`: inclusive)."""
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Shape, type and layout of one tensor; a kernel for fixed shapes is right inside it."""

    shape: tuple[int, ...]
    dtype: str
    """torch's name without the prefix: `float32`, `bfloat16`, `int64`, `bool`."""
    strides: tuple[int, ...]
    """In elements, one for each dimension."""
    domain: Domain | None = None
    """Known for inputs, `None` for outputs and parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The structure around tensors: a tensor leaf, a plain value, or a container of trees."""

    kind: Literal["tensor", "value", "list", "tuple", "dict"]
    index: int = -1
    """For `tensor`: its place in the flat list of specs."""
    value: bool | int | float | str | None = None
    """For `value`: the plain value itself."""
    items: tuple[Tree, ...] = ()
    keys: tuple[str, ...] = ()
    """For `dict`: one key for each item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """One entry of the reference's `state_dict`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: Literal["parameter", "buffer"]
    tied_to: str = ""
    """The earlier entry that shares its storage (tied weights); empty when it has its own."""


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A graph argument that is another node's result."""

    node: str


@dataclass(frozen=True, slots=True)
class ArgList:
    """A graph argument that is a list: dimensions, sizes, several tensors."""

    items: tuple[NodeRef | ArgList | bool | int | float | str | None, ...]


Arg = NodeRef | ArgList | bool | int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation of the lowered module."""

    name: str
    op: str
    """`input`, `parameter`, `buffer`, `constant`, `output`, or an ATen overload such as `aten.mul.Tensor`."""
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    shape: tuple[int, ...] | None = None
    """Shape of the result; `None` when it is not one tensor."""
    dtype: str | None = None
    strides: tuple[int, ...] | None = None
    target: str | None = None
    """For `parameter` and `buffer`: the `state_dict` name. For `input`: its flat index as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The module as ATen operations in execution order; the last node is the output."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecipe:
    """One argument of `forward`, as `--input` describes it: `x=randn(8,1024,dtype=bf16)`."""

    name: str = ""
    """The argument's name; empty for the next position."""
    function: Literal["randn", "rand", "randint", "zeros", "ones", "full", "arange", "value"]
    """The torch function that makes it; `value` for a plain value."""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    low: int = 0
    high: int = 2
    """For `randint`: values from `low` up to and without `high`. For `arange`: `high` without `low`."""
    value: bool | int | float | str | None = None
    """For `value` and `full`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the user pointed at: a name in a file, and how its inputs and weights are had."""

    path: str
    """Absolute path of the Python file."""
    class_name: str
    """What the file binds: a class, a function, an instance, or `make_model()` for what a call returns."""
    python: str
    """Interpreter in which the file's imports resolve."""
    submodule: str = ""
    """A module inside of it: `encoder.layers.3.mlp`; empty for the whole."""
    recipes: tuple[InputRecipe, ...] = ()
    """The inputs, when they were given on the command line."""
    inputs_from: str = ""
    """`file.py:factory`, when the inputs come from elsewhere than `get_inputs` of the same file."""
    weights: str = ""
    """Absolute path of a checkpoint for the module (of the whole, when a submodule is meant)."""
    name: str = ""
    """What the task and its package are called, where the user says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a kernel may rely on. Outside of it the package falls back to the user's module."""

    device: DeviceKind
    inputs: tuple[TensorSpec, ...]
    grad: bool = False
    """Whether gradients must flow; candidates are forward-only unless this is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A module to make faster, lowered to a self-contained form."""

    name: str
    """Short, fit for a directory name: `rms_norm`."""
    digest: str
    """sha256 of everything that defines the task, in hex."""
    target: Target
    form: Literal["class", "function", "instance"] = "class"
    """`class`: candidates are constructed with `init`. Otherwise without arguments: of a function there is
    nothing to construct, and an instance's construction is the user's own."""
    shown_class: str = ""
    """The class with which `source` ends, when it is not the target's `class_name`."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Plain attributes of the module and its submodules, (`norm.eps`, `1e-05`): two modules of one class that
    agree in these and in the shapes of their weights compute the same."""
    source: str
    """The module's source as the prompt shows it, up to the end of the class; no input factories."""
    init: Tree
    """Constructor arguments: a tuple tree of plain values (tensors are refused in this version)."""
    init_keywords: Tree
    """Keyword arguments of the constructor: a dict tree."""
    inputs: Tree
    """The arguments of `forward`: a tuple tree."""
    keyword_names: tuple[str, ...] = ()
    """Of the last arguments, where the module's `forward` takes them by keyword only. A candidate takes all by
    position."""
    outputs: Tree
    output_specs: tuple[TensorSpec, ...]
    parameters: tuple[ParameterSpec, ...]
    contract: Contract
    graph: Graph | None
    graph_note: str = ""
    """Why there is no graph, when there is none."""
    training: bool = False
    """The mode in which the module is verified; `eval()` unless the user's code says otherwise."""
    compulsory_bytes: int = 0
    """What any implementation must read and write in one call; 0 when nobody counted."""

    @property
    def class_name(self) -> str:
        """The class that `source` shows last."""
        return self.shown_class or self.target.class_name
