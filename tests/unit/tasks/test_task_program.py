"""Describing a task in the real reference program, over the real channel."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kevin_cli.harness import launch
from kevin_cli.harness.wire import LARGE_CAP_BYTES, Channel, Frame, Kind
from kevin_cli.records import to_plain
from kevin_cli.tasks import lower, parse_target
from kevin_cli.types import Target

GOOD = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x.masked_fill(x > 1, float("-inf")), -1)
def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.fixture(scope="module")
def reference() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-u", launch.__file__, "reference", str(theirs.fileno())]
    with subprocess.Popen(argv, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL) as process:
        theirs.close()
        channel = Channel(ours)
        assert channel.recv(timeout_s=120).kind is Kind.READY
        yield channel
        channel.close()
        process.kill()


def describe(reference: Channel, path: Path, class_name: str = "Model") -> Frame:
    target = Target(path=str(path), class_name=class_name, python=sys.executable)
    reference.request({"op": "describe", "target": to_plain(target), "device": "cpu"})
    return reference.recv(timeout_s=120, cap_bytes=LARGE_CAP_BYTES)


def test_a_description_becomes_a_task(reference: Channel, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(GOOD)
    answer = describe(reference, file)
    assert answer.kind is Kind.ANSWER
    task = lower(parse_target(str(file)), answer.json())
    assert task.graph is not None
    assert [node.op for node in task.graph.nodes] == [
        "input",
        "aten.gt.Scalar",
        "aten.masked_fill.Scalar",
        "aten.softmax.int",
        "output",
    ]
    assert task.graph.nodes[2].args[2] == float("-inf")


def test_a_fault_of_the_file_arrives_as_a_line_and_a_hint(reference: Channel, tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(GOOD.replace("torch.softmax", "torch.sofmax"))
    answer = describe(reference, file)
    assert answer.kind is Kind.FAULT
    fault = answer.json()
    assert fault["where"] == "module"
    assert "broken.py:6: forward() raised AttributeError" in fault["message"]
    assert fault["hint"]
