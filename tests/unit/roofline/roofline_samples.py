"""Tasks and ceilings with round numbers, so that every expected limit can be had in the head."""

from __future__ import annotations

from kevin_cli.harness.roofline import Ceilings
from kevin_cli.types import (
    Arg,
    Comparison,
    Contract,
    DeviceKind,
    Graph,
    Node,
    NodeRef,
    Roofline,
    Target,
    Task,
    TaskReport,
    TensorSpec,
    Timing,
    Tree,
)

MIB = 1 << 20
CEILINGS = Ceilings(
    cache_bytes=50 * MIB,
    bytes_per_s=((1 * MIB, 8e12), (512 * MIB, 4e12)),
    flops_per_s=(("bfloat16", 800e12), ("float32", 50e12), ("tf32", 400e12)),
)
"""A device with 50 MiB of cache, memory of 4 TB/s, and 50, 400 and 800 TFLOP/s."""


def tensor(name: str, *shape: int, dtype: str = "float32") -> Node:
    return Node(name=name, op="input", shape=shape, dtype=dtype)


def operation(op: str, *args: Arg | str, shape: tuple[int, ...] = (), dtype: str = "float32") -> Node:
    """A node `y`; arguments that name nodes are given as `@name`."""
    given = tuple(NodeRef(arg[1:]) if isinstance(arg, str) and arg.startswith("@") else arg for arg in args)
    return Node(name="y", op=op, args=given, shape=shape, dtype=dtype)


def graph(*nodes: Node) -> Graph:
    return Graph(nodes=(*nodes, Node(name="output", op="output", args=(NodeRef("y"),))))


def task(num_bytes: int, of: Graph | None, device: DeviceKind = DeviceKind.CUDA) -> Task:
    spec = TensorSpec(shape=(4,), dtype="float32", strides=(1,))
    return Task(
        name="sample",
        digest="0" * 64,
        target=Target(path="/sample.py", class_name="Model", python="python"),
        source="",
        init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple", items=(Tree(kind="tensor", index=0),)),
        outputs=Tree(kind="tensor", index=0),
        output_specs=(spec,),
        parameters=(),
        contract=Contract(device=device, inputs=(spec,)),
        graph=of,
        compulsory_bytes=num_bytes,
    )


RELU = graph(tensor("x", 4), operation("aten.relu.default", "@x", shape=(4,)))


def timing(median_us: float, spread_us: float = 1.0) -> Timing:
    return Timing(median_us=median_us, low_us=median_us - spread_us, high_us=median_us + spread_us, num_samples=12)


def report(limit: Roofline | None, **medians_us: float) -> TaskReport:
    return TaskReport(baselines=tuple((name, timing(us)) for name, us in medians_us.items()), roofline=limit)


def comparison(candidate_us: float) -> Comparison:
    ratio = 100.0 / candidate_us
    return Comparison(
        baseline="eager",
        median=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        noise_floor=0.01,
        baseline_timing=timing(100.0),
        candidate_timing=timing(candidate_us),
    )
