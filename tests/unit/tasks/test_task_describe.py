"""What a user's module becomes: specs, domains, trees, graph and the text that a prompt shows."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kevin_cli.harness.reference.load import load
from kevin_cli.harness.reference.lower import describe
from kevin_cli.tasks import compulsory_bytes, has_compute, lower, parse_target
from kevin_cli.types import Domain, Node, NodeRef, Task, Tree

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"


@pytest.fixture(autouse=True)
def _own_import_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def task_of(folder: Path, text: str, inputs: str = "[torch.randn(4, 8)]", init: str = "[]") -> Task:
    """The task of a class body, through JSON as between the two processes."""
    file = folder / "model.py"
    factories = f"\ndef get_inputs():\n    return {inputs}\ndef get_init_inputs():\n    return {init}\n"
    file.write_text(HEAD + textwrap.dedent(text) + factories)
    target = parse_target(str(file))
    described = describe(load(target.path, target.class_name), "cpu")
    return lower(target, json.loads(json.dumps(described)))


def task_of_forward(folder: Path, body: str, inputs: str = "[torch.randn(4, 8)]", takes: str = "x") -> Task:
    return task_of(folder, f"class Model(nn.Module):\n    def forward(self, {takes}):\n        {body}\n", inputs)


def ops(task: Task) -> list[str]:
    assert task.graph is not None, task.graph_note
    return [node.op for node in task.graph.nodes if "." in node.op or node.op == "getitem"]


def nodes(task: Task, op: str) -> list[Node]:
    assert task.graph is not None
    return [node for node in task.graph.nodes if node.op == op]


NORM = """
class Model(nn.Module):
    def __init__(self, features, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
"""


def test_a_norm_becomes_its_five_operations(tmp_path: Path) -> None:
    task = task_of(tmp_path, NORM, init="[8]")
    assert ops(task) == [f"aten.{op}" for op in ("pow.Tensor_Scalar", "mean.dim", "add.Tensor", "rsqrt.default")] + [
        "aten.mul.Tensor",
        "aten.mul.Tensor",
    ]
    mean = nodes(task, "aten.mean.dim")[0]
    assert (mean.shape, mean.dtype, mean.strides) == ((4, 1), "float32", (1, 1))
    assert nodes(task, "aten.add.Tensor")[0].args[1] == 1e-5


def test_parameters_and_inputs_are_named_in_the_graph(tmp_path: Path) -> None:
    task = task_of(tmp_path, NORM, init="[8]")
    assert [node.target for node in nodes(task, "parameter")] == ["weight"]
    assert [node.target for node in nodes(task, "input")] == ["0"]
    assert [(p.name, p.shape, p.kind) for p in task.parameters] == [("weight", (8,), "parameter")]


def test_the_output_node_is_last_and_names_the_results(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return {'a': x + 1, 'b': [x * 2, 3, None]}")
    assert task.graph is not None
    assert task.graph.nodes[-1].op == "output"
    assert task.graph.nodes[-1].args == (NodeRef("add"), NodeRef("mul"))


def test_outputs_keep_their_structure_and_plain_values(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return {'a': x.half(), 'b': [x.sum(0), 3, None]}")
    assert task.outputs == Tree(
        kind="dict",
        keys=("a", "b"),
        items=(
            Tree(kind="tensor", index=0),
            Tree(
                kind="list",
                items=(Tree(kind="tensor", index=1), Tree(kind="value", value=3), Tree(kind="value", value=None)),
            ),
        ),
    )
    assert [(spec.dtype, spec.shape) for spec in task.output_specs] == [("float16", (4, 8)), ("float32", (8,))]


@pytest.mark.parametrize(
    ("call", "op"),
    [
        ("F.softmax(x, -1)", "aten.softmax.int"),
        ("F.log_softmax(x, -1)", "aten.log_softmax.int"),
        ("F.layer_norm(x, (8,))", "aten.layer_norm.default"),
        ("F.rms_norm(x, (8,))", "aten.rms_norm.default"),
        ("F.gelu(x)", "aten.gelu.default"),
        ("F.silu(x)", "aten.silu.default"),
        ("F.linear(x, x)", "aten.linear.default"),
        ("F.cross_entropy(x, x)", "aten.cross_entropy_loss.default"),
        ("torch.logsumexp(x, 1)", "aten.logsumexp.default"),
    ],
)
def test_operations_that_mean_one_thing_stay_whole(tmp_path: Path, call: str, op: str) -> None:
    assert ops(task_of_forward(tmp_path, f"return {call}")) == [op]


def test_in_place_operations_become_functional(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "y = x + 1; y += 2; return F.relu(y, inplace=True)")
    assert ops(task) == ["aten.add.Tensor", "aten.add.Tensor", "aten.relu.default"]


def test_what_does_nothing_is_left_out(tmp_path: Path) -> None:
    body = "return F.dropout(x, 0.5, self.training).detach().contiguous().float() + 1"
    assert ops(task_of_forward(tmp_path, body)) == ["aten.add.Tensor"]


def test_infinities_survive_the_way_to_the_controller(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return x.masked_fill(x > 0, float('-inf'))")
    assert nodes(task, "aten.masked_fill.Scalar")[0].args[2] == float("-inf")


def test_a_constant_of_one_element_carries_its_value(tmp_path: Path) -> None:
    text = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.tensor(2.5)
            self.register_buffer("kept", torch.ones(8))
            self.register_buffer("lost", torch.ones(8), persistent=False)

        def forward(self, x):
            return x * self.scale + self.kept + self.lost
    """
    task = task_of(tmp_path, text)
    assert [(node.target, node.args) for node in nodes(task, "constant")] == [("lost", ()), ("scale", (2.5,))]
    assert [node.target for node in nodes(task, "buffer")] == ["kept"]
    assert [(p.name, p.kind) for p in task.parameters] == [("kept", "buffer")]


def test_tied_weights_name_the_entry_they_share(tmp_path: Path) -> None:
    text = """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(8, 8, bias=False)
            self.b = nn.Linear(8, 8, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))
    """
    assert [(p.name, p.tied_to) for p in task_of(tmp_path, text).parameters] == [
        ("a.weight", ""),
        ("b.weight", "a.weight"),
    ]


def test_a_module_that_cannot_be_traced_is_still_a_task(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return x if x.sum().item() > 1e9 else x + 1")
    assert task.graph is None
    assert task.graph_note.startswith("torch.export cannot trace it")
    assert "\n" not in task.graph_note
    assert has_compute(task)


def test_a_step_whose_shape_depends_on_values_leaves_no_graph(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return x[x > 0].sum()")
    assert task.graph is None
    assert "depends on values" in task.graph_note


@pytest.mark.parametrize(
    ("draw", "kind"),
    [
        ("torch.randn(400)", "real"),
        ("torch.rand(400)", "unit"),
        ("torch.rand(400) * 5", "non_negative"),
        ("torch.rand(400) * 5 + 1", "positive"),
        ("torch.randint(3, 9, (400,))", "integer"),
        ("torch.randint(0, 2, (400,)).float()", "integer"),
        ("torch.rand(400) > 0.5", "boolean"),
        ("torch.randn(400).bfloat16()", "real"),
        ("torch.ones(400)", "unit"),
    ],
)
def test_the_domain_is_inferred_from_the_users_inputs(tmp_path: Path, draw: str, kind: str) -> None:
    domain = task_of_forward(tmp_path, "return x + 1", f"[{draw}]").contract.inputs[0].domain
    assert domain is not None
    assert domain.kind == kind


def test_integer_domains_keep_what_was_seen(tmp_path: Path) -> None:
    domain = task_of_forward(tmp_path, "return x + 1", "[torch.randint(3, 9, (4000,))]").contract.inputs[0].domain
    assert isinstance(domain, Domain)
    assert (domain.low, domain.high) == (3, 8)


def test_infinite_values_do_not_spoil_a_domain(tmp_path: Path) -> None:
    draw = "[torch.randn(400).masked_fill_(torch.rand(400) > 0.9, float('-inf'))]"
    domain = task_of_forward(tmp_path, "return x + 1", draw).contract.inputs[0].domain
    assert domain is not None
    assert -10 < domain.low < 0 < domain.high < 10


def test_strides_are_part_of_the_contract(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return x + 1", "[torch.randn(8, 4).t()]")
    assert task.contract.inputs[0].strides == (1, 4)
    assert task.output_specs[0].strides == (1, 4)


@pytest.mark.parametrize(
    "inputs",
    ["[x, 2.0]", "(x, 2.0)", "{'x': x, 'k': 2.0}", "[[x], {'k': 2.0}]", "{'k': 2.0, 'x': x}"],
)
def test_inputs_may_be_given_in_any_form(tmp_path: Path, inputs: str) -> None:
    task = task_of_forward(
        tmp_path,
        "return x * k",
        inputs.replace("x,", "torch.ones(2),").replace(": x}", ": torch.ones(2)}").replace("[x]", "[torch.ones(2)]"),
        "x, k, unused=None",
    )
    assert task.inputs == Tree(kind="tuple", items=(Tree(kind="tensor", index=0), Tree(kind="value", value=2.0)))


def test_a_list_and_a_dict_for_two_arguments_stay_arguments(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return a[0] + b['k']", "[[torch.ones(2)], {'k': torch.ones(2)}]", "a, b")
    assert [item.kind for item in task.inputs.items] == ["list", "dict"]


def test_constructor_keywords_are_kept_apart(tmp_path: Path) -> None:
    task = task_of(tmp_path, NORM, init="[[8], {'eps': 0.5}]")
    assert task.init == Tree(kind="tuple", items=(Tree(kind="value", value=8),))
    assert task.init_keywords == Tree(kind="dict", keys=("eps",), items=(Tree(kind="value", value=0.5),))


def test_equal_tasks_in_two_places_have_one_digest(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = task_of(tmp_path / "a", NORM, init="[8]"), task_of(tmp_path / "b", NORM, init="[8]")
    assert one.digest == other.digest
    assert one.digest != task_of(tmp_path / "a", NORM, init="[8, 0.1]").digest


# --- the source that a prompt shows ------------------------------------------------------------------


def test_the_shown_source_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text("import torch\nEPS = 1e-3\ndef norm(x):\n    return x / (x.norm() + EPS)\n")
    text = """
    import json
    from .layers import norm as unit

    # how much is added
    SHIFT = 2.0  # not more

    def unused():
        return json.dumps(SHIFT)

    class Model(nn.Module):
        def forward(self, x):
            # the whole point
            return late(unit(x)) + SHIFT

    def late(x):
        return x * 3
    """
    task = task_of(tmp_path, text)
    names: dict[str, Any] = {}
    exec(task.source, names)
    x = torch.randn(4, 8)
    torch.testing.assert_close(names["Model"]()(x), x / (x.norm() + 1e-3) * 3 + 2)
    assert "unused" not in task.source
    assert "get_inputs" not in task.source
    assert "# how much is added\nSHIFT = 2.0  # not more" in task.source
    assert "# the whole point" in task.source
    assert task.source.rstrip().endswith("return late(unit(x)) + SHIFT")


def test_a_class_from_a_file_beside_is_shown_itself(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(
        HEAD + "class Net(nn.Module):\n    def forward(self, x):\n        return x + 1\n"
    )
    task = task_of(tmp_path, "from layers import Net as Model\n")
    assert "class Net(nn.Module):" in task.source
    assert task.source.rstrip().endswith("Model = Net")


def test_what_two_definitions_share_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "shared_layers.py").write_text(
        "EPS = 1.0\ndef a(x):\n    return x + EPS\ndef b(x):\n    return x - EPS\n"
    )
    text = """
    from shared_layers import a
    from shared_layers import b

    class Model(nn.Module):
        def forward(self, x):
            return a(x) * b(x)
    """
    assert task_of(tmp_path, text).source.count("EPS = 1.0") == 1


def test_a_star_import_of_a_file_beside_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "starred_layers.py").write_text("def bent(x):\n    return x + 1\ndef other(x):\n    return x\n")
    text = "from starred_layers import *\nclass Model(nn.Module):\n    def forward(self, x):\n        return bent(x)\n"
    source = task_of(tmp_path, text).source
    assert "def bent(x):" in source
    assert "other" not in source


def test_equal_names_for_different_things_keep_the_import(tmp_path: Path) -> None:
    (tmp_path / "clashing_layers.py").write_text("EPS = 5.0\ndef a(x):\n    return x + EPS\n")
    text = """
    from clashing_layers import a
    EPS = 1.0

    class Model(nn.Module):
        def forward(self, x):
            return a(x) * EPS
    """
    source = task_of(tmp_path, text).source
    assert "from clashing_layers import a" in source
    assert "5.0" not in source


def test_a_class_of_an_installed_package_is_shown_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "installed_layers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("def half(x):\n    return x / 2\n")
    (package / "net.py").write_text(
        HEAD + "from .parts import half\nclass Net(nn.Module):\n    def forward(self, x):\n        return half(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr("site.getsitepackages", lambda: [str(tmp_path / "site")])
    source = task_of(tmp_path, "from installed_layers.net import Net as Model\n").source
    assert "class Net(nn.Module):" in source
    assert "from installed_layers.parts import half" in source


# --- estimates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", ["return x", "return x.t().reshape(2, 16)", "return x[:2].unsqueeze(0).expand(3, 2, 8)"]
)
def test_looking_at_memory_is_no_compute(tmp_path: Path, body: str) -> None:
    assert not has_compute(task_of_forward(tmp_path, body))


@pytest.mark.parametrize("body", ["return x + 1", "return x.t().contiguous()", "return torch.cat([x, x])"])
def test_work_is_compute(tmp_path: Path, body: str) -> None:
    assert has_compute(task_of_forward(tmp_path, body))


@pytest.mark.parametrize(
    ("body", "num_bytes"),
    [
        ("return x + 1", 2 * 128),
        ("return x.sum()", 128 + 4),
        ("return (x + 1, x * 2)", 3 * 128),
        ("return x[:2] + 1", 2 * 64),
        ("return F.embedding(torch.zeros(1, dtype=torch.long), x)", 2 * 32),
        ("return (x + 1).half()", 128 + 64),
        ("return (x + 1).expand(5, 4, 8)", 2 * 128),
        ("return (x + 1, x)", 2 * 128),
    ],
)
def test_compulsory_bytes_count_each_thing_once(tmp_path: Path, body: str, num_bytes: int) -> None:
    assert compulsory_bytes(task_of_forward(tmp_path, body)) == num_bytes


def test_unread_inputs_do_not_count(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return x + 1", "[torch.randn(4, 8), torch.randn(99)]", "x, y")
    assert compulsory_bytes(task) == 256


def test_without_a_graph_everything_counts(tmp_path: Path) -> None:
    task = task_of_forward(tmp_path, "return x if x.sum().item() > 1e9 else x + 1")
    assert compulsory_bytes(task) == 256


def test_a_task_with_empty_outputs_has_no_compute(tmp_path: Path) -> None:
    assert not has_compute(task_of_forward(tmp_path, "return x[:0] + 1"))
