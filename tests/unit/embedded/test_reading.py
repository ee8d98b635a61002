"""What the reference process tells about a module's graph, and what the embedded proposer makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kevin_cli.harness.reference.graph import trace
from kevin_cli.policies.embedded.plan import CpuPlan
from kevin_cli.policies.embedded.policy import explain, write
from kevin_cli.types import Rules
from tests.unit.embedded.modules import Body, task_of

X = torch.randn(16, 24)


def _operations(body: Callable[..., Any], *inputs: torch.Tensor) -> list[str]:
    graph, note = trace(Body(body), inputs)
    assert graph is not None, note
    return [node.op for node in graph.nodes if node.op.startswith("aten.")]


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (lambda m, x, y: torch.einsum("ij,kj->ik", x, y), (X, X)),
        (lambda m, x, y: F.triplet_margin_loss(x, y, y + 1), (X, X * 2)),
        (lambda m, x, y: F.hinge_embedding_loss(x, y), (X, X.sign())),
    ],
)
def test_operations_that_say_little_are_given_in_torchs_own_parts(
    body: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> None:
    found = _operations(body, *inputs)
    assert not any(word in name for name in found for word in ("einsum", "triplet", "hinge"))
    assert explain(task_of(Body(body), inputs), Rules.KERNELS) is None


def test_composites_that_mean_one_thing_stay_whole() -> None:
    found = _operations(lambda m, x: F.gelu(F.layer_norm(x, (24,))).softmax(-1), X)
    assert found == ["aten.layer_norm.default", "aten.gelu.default", "aten.softmax.int"]


def test_dropout_in_evaluation_mode_costs_nothing() -> None:
    module = Body(lambda m, x: F.dropout(x * 2, 0.5, m.training) + 1)
    source = write(task_of(module, (X,)), CpuPlan())
    assert "dropout" not in source
    assert source.count(" kernels.") == 1


def test_a_result_of_several_parts_is_picked_apart() -> None:
    source = write(task_of(Body(lambda m, x: x.topk(3)[0] * 2 + 1), (X,)), CpuPlan())
    assert "torch.ops.aten.topk.default(x, 3)" in source
    assert "[0].contiguous()" in source


def test_types_and_infinities_in_calls_are_written_as_python() -> None:
    module = Body(lambda m, x: torch.clamp(x.to(torch.float64).cumsum(0), min=float("-inf")).to(torch.float32) * 2 + 1)
    source = write(task_of(module, (X,)), CpuPlan())
    assert "torch.float64" in source
    assert 'float("-inf")' in source


def test_channels_last_results_of_calls_stay_channels_last() -> None:
    weight = torch.randn(8, 3, 3, 3)
    inputs = (torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last),)
    source = write(task_of(Body(lambda m, x: F.relu(F.conv2d(x, m.w)) * 2, w=weight), inputs), CpuPlan())
    assert "contiguous(memory_format=torch.channels_last)" in source
