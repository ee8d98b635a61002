"""The smallest task, for policies that only look at the conversation."""

from __future__ import annotations

from kevin_cli.types import Contract, DeviceKind, Target, Task, Tree

TASK = Task(
    name="t",
    digest="0" * 64,
    target=Target(path="/m.py", class_name="Model", python="python3"),
    source="class Model: ...",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple"),
    outputs=Tree(kind="tuple"),
    output_specs=(),
    parameters=(),
    contract=Contract(device=DeviceKind.CPU, inputs=()),
    graph=None,
)
