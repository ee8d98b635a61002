"""Which device nodes a candidate gets: of the judged GPU alone, or all where that can't be had."""

import pytest

from kevin_cli.harness import gpu_node
from kevin_cli.harness.gpu_node import Nodes, judged_nodes, nodes_of
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.types import Isolation

NODES = (
    "/dev/nvidia-caps/nvidia-cap1",
    "/dev/nvidia-uvm",
    "/dev/nvidia0",
    "/dev/nvidia1",
    "/dev/nvidia10",
    "/dev/nvidiactl",
)
UUID = "GPU-11111111-2222-3333-4444-555555555555"


def test_shared_nodes_stay_and_those_of_other_gpus_go():
    shared = {"/dev/nvidia-caps/nvidia-cap1", "/dev/nvidia-uvm", "/dev/nvidiactl"}
    assert set(nodes_of(1, NODES)) == {*shared, "/dev/nvidia1"}


@pytest.mark.parametrize(
    ("outside", "minor", "inside", "is_one"),
    [
        (("3", UUID), 1, ("1", UUID), True),
        (("3", UUID), 1, ("3", UUID), False),
        (("3", UUID), 1, ("0", ""), False),
        (("3", "GPU-a-part-of-one"), None, ("1", UUID), False),
    ],
    ids=["works", "the driver counts others", "the driver fails inside", "no whole GPU"],
)
def test_one_gpu_is_shown_where_the_driver_inside_counts_only_it(monkeypatch, outside, minor, inside, is_one):
    asked = []

    def first_gpu(wrap, env):
        asked.append((tuple(wrap), env.get("CUDA_VISIBLE_DEVICES")))
        return inside if wrap else outside

    monkeypatch.setattr(gpu_node, "_first_gpu", first_gpu)
    monkeypatch.setattr(gpu_node, "minor_of", lambda uuid: minor)
    found = judged_nodes(lambda nodes: ["bwrap", *nodes.paths], NODES)
    assert found == (Nodes(nodes_of(1, NODES), UUID) if is_one else Nodes(NODES))
    if minor is not None:
        assert asked[1] == (("bwrap", *nodes_of(1, NODES)), UUID)


def test_with_one_gpu_nobody_is_asked(monkeypatch):
    monkeypatch.setattr(gpu_node, "_first_gpu", lambda *_: 1 / 0)
    assert judged_nodes(lambda nodes: [], NODES[:3]) == Nodes(NODES[:3])


def test_the_judged_gpu_is_the_one_that_a_contained_program_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(Sandbox, "gpu_nodes", lambda self: Nodes(("/dev/nvidia1",), UUID))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    sandbox = Sandbox(level=Isolation.BUBBLEWRAP, note="", bwrap="bwrap")
    argv = sandbox.wrap(gpu=True)
    assert argv[argv.index("--dev-bind") :][:3] == ["--dev-bind", "/dev/nvidia1", "/dev/nvidia1"]
    assert sandbox.environment(tmp_path, gpu=True)["CUDA_VISIBLE_DEVICES"] == UUID
    assert sandbox.environment(tmp_path)["CUDA_VISIBLE_DEVICES"] == "1"
    assert "--dev-bind" not in sandbox.wrap()
