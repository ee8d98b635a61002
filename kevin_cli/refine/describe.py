"""A task's contract in words: shapes, types, layouts and values, as a prompt states them."""

from __future__ import annotations

from collections.abc import Sequence

from kevin_cli.refine.untrusted import fence_for
from kevin_cli.types import Domain, Task, TensorSpec, Tree


def task_words(task: Task) -> dict[str, object]:
    """What a prompt template can use."""
    return {
        "source": task.source.strip("\n"),
        "fence": fence_for(task.source),
        "device": task.contract.device.value,
        "inputs": [f"t{index}: {_spec(spec)}" for index, spec in enumerate(task.contract.inputs)],
        "call": call_words(task.inputs),
        "construct": construct_words(task.init, task.init_keywords),
        "outputs": [f"o{index}: {_spec(spec)}" for index, spec in enumerate(task.output_specs)],
        "result": tree_words(task.outputs, "o"),
        "parameters": [f"{p.name}: {p.dtype}, shape {_shape(p.shape)}, {p.kind}" for p in task.parameters],
        "training": task.training,
    }


def call_words(inputs: Tree) -> str:
    """`t0, [t1, 3]`: the arguments of `forward`."""
    return ", ".join(tree_words(item, "t") for item in inputs.items)


def construct_words(init: Tree, keywords: Tree) -> str:
    """`64, eps=1e-05`: the arguments of the constructor."""
    plain = [tree_words(item, "t") for item in init.items]
    named = [f"{key}={tree_words(item, 't')}" for key, item in zip(keywords.keys, keywords.items, strict=True)]
    return ", ".join([*plain, *named])


def tree_words(tree: Tree, letter: str) -> str:
    """A tree as the Python expression it stands for, tensors as `letter` and their index."""
    if tree.kind == "tensor":
        return f"{letter}{tree.index}"
    if tree.kind == "value":
        return repr(tree.value)
    items = [tree_words(item, letter) for item in tree.items]
    if tree.kind == "dict":
        return "{" + ", ".join(f"{key!r}: {item}" for key, item in zip(tree.keys, items, strict=True)) + "}"
    if tree.kind == "list":
        return "[" + ", ".join(items) + "]"
    return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"


def _spec(spec: TensorSpec) -> str:
    words = f"{spec.dtype}, shape {_shape(spec.shape)}, {_layout(spec)}"
    return words + (f", {_values(spec.domain)}" if spec.domain else "")


def _shape(shape: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _layout(spec: TensorSpec) -> str:
    return "contiguous" if spec.strides == _contiguous(spec.shape) else f"strides {_shape(spec.strides)}"


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, size = [], 1
    for extent in reversed(shape):
        strides.append(size)
        size *= max(extent, 1)
    return tuple(reversed(strides))


def _values(domain: Domain) -> str:
    if domain.kind == "integer":
        return f"integers from {domain.low:.0f} to {domain.high:.0f}"
    words = {
        "real": "any real values",
        "non_negative": "values >= 0",
        "positive": "values > 0",
        "unit": "values in [0, 1]",
        "boolean": "true or false",
    }
    return words[domain.kind]
