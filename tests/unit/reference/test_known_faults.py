"""Where other evaluators of kernels blame the candidate, or pass what computes nothing: each as a task of ours."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from started import Fault, Started

HEAD = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, {arguments}):
{body}


def get_inputs():
    return [{inputs}]
"""
Describe = Callable[..., dict[str, Any]]


@pytest.fixture
def task(program: Started, tmp_path: Path) -> Describe:
    """Describes a module given by forward's arguments, its body and its inputs, and opens it."""

    def describe(arguments: str, body: str, inputs: str, *, max_bytes: int = 4 << 20) -> dict[str, Any]:
        path = tmp_path / "model.py"
        lines = "\n".join(f"        {line}" for line in body.splitlines())
        path.write_text(HEAD.format(arguments=arguments, body=lines, inputs=inputs))
        program.describe_file(path)
        program.open(max_bytes)
        return program.ask("calibrate", seed=5)

    return describe


def test_an_operation_that_is_the_identity_on_the_inputs_used_is_a_weak_check(program: Started, task: Describe) -> None:
    found = task("x", "return torch.relu(x)", "torch.rand(64, 64)")
    assert "input 0 returned would pass" in found["weak_check"]


def test_a_constant_answer_is_a_weak_check(program: Started, task: Describe) -> None:
    assert task("x", "return x.softmax(1).sum(1)", "torch.randn(64, 64)")["weak_check"]
    assert task("x", "return torch.logsumexp(x - x, 1)", "torch.randn(64, 64)")["weak_check"]


def test_outputs_below_any_fixed_tolerance_are_judged_all_the_same(program: Started, task: Describe) -> None:
    found = task("x", "return torch.softmax(x, 1)", "torch.rand(4, 200_000)")
    assert found["weak_check"] == ""
    assert not program.judged(lambda inputs: [torch.zeros(4, 200_000)])["passed"]
    assert not program.judged(lambda inputs: [torch.softmax(inputs[0], 1) * 1.001])["passed"]
    assert program.judged(lambda inputs: [torch.softmax(inputs[0], 1)])["passed"]


def test_integer_and_boolean_inputs_stay_what_they_are(program: Started, task: Describe) -> None:
    task("x, i, m", "return x[i] * m[:, None]", "torch.randn(50, 8), torch.randint(0, 50, (30,)), torch.rand(30) < 0.5")
    specs = program.description["contract"]["inputs"]
    assert [spec["dtype"] for spec in specs] == ["float32", "int64", "bool"]
    found = program.judged(lambda inputs: [inputs[0][inputs[1]] * inputs[2][:, None]], stratum="normal")
    assert found["passed"], found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return torch.nn.functional.dropout(x, 0.5, training=True)", "different results"),
        ("return x + torch.rand_like(x)", "different results"),
        ("return x.relu_()", "writes into its inputs"),
        ("raise RuntimeError('device-side assert triggered')", "device-side assert"),
        ("assert x.dtype is torch.float16\nreturn x", "AssertionError"),
    ],
)
def test_a_reference_that_cannot_be_one_is_the_task_s_fault(task: Describe, body: str, words: str) -> None:
    with pytest.raises(Fault, match=words) as fault:
        task("x", body, "torch.randn(8, 8)")
    assert fault.value.where != "internal"


def test_a_reference_that_asserts_on_some_values_is_never_given_them(program: Started, task: Describe) -> None:
    body = "if not bool((x.abs() < 50).all()):\n    raise RuntimeError('device-side assert triggered')\n"
    task("x", body + "return x.exp()", "torch.randn(16, 16)")
    for stratum in ("large", "offset", "heavy", "special", "ties", "sparse"):
        found = program.judged(lambda inputs: [inputs[0].exp()], stratum=stratum)
        assert found["passed"], (stratum, found)


@pytest.mark.parametrize(
    ("body", "swallows"),
    [
        ("torch.relu(x)", lambda x: torch.where(x > 0, x, 0.0)),
        ("x.amax(1)", lambda x: x.nan_to_num(-9.0).amax(1)),
        ("x.sum()", lambda x: x.nan_to_num(0.0).sum()),
        ("x.clamp(-1, 1)", lambda x: torch.fmin(torch.fmax(x, torch.tensor(-1.0)), torch.tensor(1.0))),
        ("x.softmax(1)", lambda x: x.nan_to_num(0.0).softmax(1)),
        ("x.argmax(1)", lambda x: x.nan_to_num(-9.0).argmax(1)),
        ("torch.nn.functional.max_pool2d(x[None], 2)[0]", lambda x: swallowing_pool(x)),
    ],
)
def test_a_nan_that_is_swallowed_is_found_whatever_it_spreads_to(
    program: Started, task: Describe, body: str, swallows: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    task("x", f"return {body}", "torch.randn(40, 48)")
    for seed in range(4):
        drawn = program.ask("draw", slot=0, seed=seed, stratum="special")
        assert drawn["stratum"] == "special"
        program.reply(0, lambda inputs: [eval(body, {"torch": torch, "x": inputs[0]})])
        assert program.ask("check", slot=0)["passed"]
        program.reply(0, lambda inputs: [swallows(inputs[0])])
        assert not program.ask("check", slot=0)["passed"]


def swallowing_pool(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.max_pool2d(x.nan_to_num(-9.0)[None], 2)[0]


def test_what_is_planted_stays_within_the_sign_that_the_inputs_have(program: Started, task: Describe) -> None:
    for inputs, has_negative_zero in (
        ("torch.rand(40, 48)", False),
        ("torch.randn(40, 48).abs() + 2", False),
        ("torch.randn(40, 48)", True),
    ):
        task("x", "return x * 2", inputs)
        program.ask("draw", slot=0, seed=1, stratum="special")
        (x,) = program.inputs(0)
        assert bool(x.isnan().any())
        assert not bool(x.isinf().any()), "right ways to compute differ in what becomes of infinities"
        assert bool(((x == 0) & x.signbit()).any()) == has_negative_zero


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("return torch.nn.functional.binary_cross_entropy(x, x.round())", "torch.rand(40, 48)"),
        ("return x * 2", "torch.randint(0, 9, (40, 48))"),
        ("return x * 2", "torch.randn(3)"),
    ],
    ids=["asserts on its values", "integers", "too few to hide one"],
)
def test_where_nan_cannot_be_given_none_is(program: Started, task: Describe, body: str, inputs: str) -> None:
    task("x", body, inputs)
    assert program.ask("draw", slot=0, seed=1, stratum="special")["stratum"] == "user"


def test_a_module_may_work_in_place_on_what_it_made_itself(program: Started, task: Describe) -> None:
    task("x", "y = x * 2\ny.add_(1).relu_()\nreturn y", "torch.randn(16, 16)")
    assert program.judged(lambda inputs: [torch.relu(inputs[0] * 2 + 1)])["passed"]


def test_tuples_and_dicts_are_compared_as_a_whole(program: Started, task: Describe) -> None:
    task("x", "return {'sum': x.sum(1), 'both': (x * 2, x * 3)}", "torch.randn(16, 16)")
    right = lambda inputs: [inputs[0].sum(1), inputs[0] * 2, inputs[0] * 3]  # noqa: E731
    assert program.judged(right)["passed"]
    swapped = lambda inputs: [inputs[0].sum(1), inputs[0] * 3, inputs[0] * 2]  # noqa: E731
    assert not program.judged(swapped)["passed"]


def test_nan_where_the_reference_has_nan_is_right_and_anything_else_is_not(program: Started, task: Describe) -> None:
    task("x", "return torch.log(x)", "torch.randn(32, 32)")
    assert program.judged(lambda inputs: [torch.log(inputs[0])])["passed"]
    found = program.judged(lambda inputs: [torch.log(inputs[0]).nan_to_num(0.0)])
    assert (found["passed"], found["kind"]) == (False, "nan")


def test_inputs_that_are_not_contiguous_stay_so(program: Started, task: Describe) -> None:
    task("x", "return x.t() @ x", "torch.randn(24, 40).t()[::2]")
    assert program.inputs(0)[0].stride() == (2, 40)
    assert program.judged(lambda inputs: [inputs[0].t() @ inputs[0]])["passed"]


@pytest.mark.parametrize(
    "body",
    [
        "if x.dtype is not torch.float32:\n    raise TypeError('this kernel is for float32')\nreturn torch.tanh(x)",
        "return (x.contiguous().view(torch.int32) & -256).view(torch.float32)",
    ],
)
def test_a_module_with_its_own_kernel_is_judged_in_its_own_precision(
    program: Started, task: Describe, body: str
) -> None:
    assert task("x", body, "torch.randn(32, 32)")["reference_precision"] == "float32"


def test_a_float_on_the_way_is_judged_against_float64(program: Started, task: Describe) -> None:
    found = task("x", "return (x.float() * 3.0).half().float().sum(1)", "torch.randn(32, 32)")
    assert found["reference_precision"].startswith("float64")


def test_a_large_output_is_compared_in_chunks(tmp_path: Path) -> None:
    """160 MB of output: the comparison needs the outputs (module, float64, copies), and little beside them."""
    started = Started()
    path = tmp_path / "model.py"
    path.write_text(HEAD.format(arguments="x", body="        return x * 2", inputs="torch.randn(40, 1 << 20)"))
    started.describe_file(path)
    started.open(1)
    limit = _virtual_bytes(started.process.pid) + (1600 << 20)
    resource.prlimit(started.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    assert started.judged(lambda inputs: [inputs[0] * 2])["passed"]
    started.stop()


def _virtual_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def _last_of_equals(values: torch.Tensor, count: int) -> torch.Tensor:
    """As topk, but among equal values the last position is named first."""
    order = values.flip(1).sort(stable=True, dim=1, descending=True).indices
    return values.shape[1] - 1 - order[:, :count]


def test_positions_of_equal_values_are_all_right_and_others_are_not(program: Started, task: Describe) -> None:
    task("x", "return torch.topk(x, 4, dim=1)", "torch.randn(32, 64)")

    def answer(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
        def give(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            return [inputs[0].topk(4, 1).values, change(_last_of_equals(inputs[0], 4))]

        return give

    found = program.judged(answer(lambda positions: positions), stratum="ties")
    assert found["passed"], found
    repeated = answer(lambda positions: positions[:, :1].expand(-1, 4).contiguous())
    assert not program.judged(repeated, stratum="ties")["passed"]
    assert not program.judged(answer(lambda positions: positions ^ 1), stratum="ties")["passed"]
    assert not program.judged(answer(lambda positions: positions + 64), stratum="ties")["passed"]


def test_the_first_of_equal_values_is_the_maximum_s_by_its_documentation(program: Started, task: Describe) -> None:
    task("x", "return x.argmax(1)", "torch.randn(32, 64)")
    assert program.judged(lambda inputs: [inputs[0].argmax(1)], stratum="ties")["passed"]
    last = lambda inputs: [_last_of_equals(inputs[0], 1)[:, 0]]  # noqa: E731
    assert not program.judged(last, stratum="ties")["passed"]
