"""The static stage: Kevin's rules are found to be broken under any alias, honest kernels are left alone."""

import textwrap

import pytest

from kevin_cli.harness.rules import check_rules
from kevin_cli.types import Rules

HONEST = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
// at::relu(x) would be cheating; this comment is not
torch::Tensor relu(torch::Tensor x) { auto y = torch::empty_like(x); return y; }
"""
fused = load_inline(name="fused", cpp_sources=source, functions=["relu"])


class ModelNew(nn.Module):
    """Replaces the forward pass: computes relu(x) @ w in one kernel, pass by pass."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size) * 0.1)
        nn.init.kaiming_uniform_(self.weight.view(1, -1))
        self.fused = fused

    def forward(self, x):
        assert x.is_contiguous() and x.dtype == torch.float32
        out = torch.empty_like(x)
        y = fused.relu(x.contiguous().view(-1))
        return self.fused.softmax(y).reshape(x.shape)
'''


def model(body, head="", init=""):
    return (
        f"import torch\nimport torch.nn as nn\n{head}\n"
        f"class ModelNew(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {init or 'pass'}\n"
        f"    def forward(self, x):\n{textwrap.indent(body, '        ')}\n"
    )


def test_an_honest_kernel_is_left_alone_under_both_rules():
    assert check_rules(HONEST, Rules.KERNELS) == ()
    assert check_rules(HONEST, Rules.LIBRARY) == ()


@pytest.mark.parametrize(
    ("body", "head", "init"),
    [
        ("return torch.relu(x)", "", ""),
        ("return x.relu()", "", ""),
        ("return x @ x", "", ""),
        ("return F.gelu(x)", "import torch.nn.functional as F", ""),
        ("return g(x)", "from torch.nn.functional import gelu as g", ""),
        ("return nn.functional.gelu(x)", "", ""),
        ("return t.matmul(x, x)", "import torch as t", ""),
        ("return mm(x, x)", "mm = torch.mm", ""),
        ("return self.fc(x)", "", "self.fc = nn.Linear(3, 4)"),
        ("return self.fc(x)", "from torch.nn import Linear as L", "self.fc = L(3, 4)"),
        ("return self.act(x)", "", "self.act = torch.relu"),
        ("return self.act(x)", "", "self.act = lambda x: torch.tanh(x)"),
        ("return torch.ops.aten.relu(x)", "", ""),
        ("return (x + 1).sum(-1)", "", ""),
        ("return torch.Tensor.relu(x)", "", ""),
        ("return torch.compile(self.f)(x)", "", ""),
    ],
)
def test_computing_with_torch_is_found_under_kernels_and_allowed_under_library(body, head, init):
    source = model(body, head, init)
    assert check_rules(source, Rules.KERNELS)
    assert check_rules(source, Rules.LIBRARY) == ()


def test_inheriting_a_layer_is_found():
    source = "from torch import nn\nclass ModelNew(nn.Linear):\n    pass\n"
    assert [finding.line for finding in check_rules(source, Rules.KERNELS)] == [2]


def test_computing_with_aten_in_the_cpp_text_is_found_on_its_line():
    source = model("return x", head='cpp = """\n#include <torch/extension.h>\nauto y = at::matmul(a, b);\n"""')
    found = check_rules(source, Rules.KERNELS)
    assert [(finding.line, "at::matmul" in finding.text) for finding in found] == [(5, True)]


def test_a_finding_names_the_line():
    assert check_rules(model("y = x\nreturn torch.relu(y)"), Rules.KERNELS)[0].line == 10


@pytest.mark.parametrize("rules", list(Rules))
def test_a_program_without_the_class_is_refused(rules):
    assert "ModelNew" in check_rules("class Model: pass", rules)[0].text


@pytest.mark.parametrize("rules", list(Rules))
def test_inheriting_from_the_reference_is_refused(rules):
    assert check_rules("class ModelNew(Model):\n    pass\n", rules)


def test_inheriting_from_a_class_of_its_own_that_is_called_model_is_allowed():
    source = "import torch.nn as nn\nclass Model(nn.Module): pass\nclass ModelNew(Model): pass\n"
    assert check_rules(source, Rules.LIBRARY) == ()


def test_source_that_does_not_parse_is_left_to_the_build():
    assert check_rules("def broken(:", Rules.KERNELS) == ()
