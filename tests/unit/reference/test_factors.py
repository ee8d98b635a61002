"""Factors of a matrix: any right ones pass, whatever their signs, phases and order; wrong ones do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from started import Started

HEAD = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [{inputs}]
"""
SYMMETRIC = "(lambda x: x + x.mT)(torch.randn(3, 12, 12))"
Tensors = list[torch.Tensor]
Answer = Callable[[Tensors], Tensors]


@pytest.fixture
def task(program: Started, tmp_path: Path) -> Callable[[str, str], dict[str, Any]]:
    def describe(body: str, inputs: str) -> dict[str, Any]:
        path = tmp_path / "model.py"
        path.write_text(HEAD.format(body=body, inputs=inputs))
        program.describe_file(path)
        program.open()
        return program.ask("calibrate", seed=5)

    return describe


def flip(matrix: torch.Tensor, dim: int) -> torch.Tensor:
    signs = torch.ones(matrix.shape[dim], dtype=matrix.dtype)
    signs[1::3] = -1
    return matrix * (signs if dim == -1 else signs.unsqueeze(-1))


def symmetric(inputs: Tensors) -> torch.Tensor:
    return inputs[0]


def eigh_flipped(inputs: Tensors) -> Tensors:
    w, v = torch.linalg.eigh(symmetric(inputs).double())
    return [w.float(), flip(v, -1).float()]


def eigh_skewed(inputs: Tensors) -> Tensors:
    w, v = eigh_flipped(inputs)
    v[..., 0] += 1e-3 * v[..., 1]
    return [w, v]


def eigh_unordered(inputs: Tensors) -> Tensors:
    w, v = eigh_flipped(inputs)
    return [w, v.flip(-1)]


def qr_flipped(inputs: Tensors) -> Tensors:
    q, r = torch.linalg.qr(inputs[0].double())
    return [flip(q, -1).float(), flip(r, -2).float()]


def qr_flipped_apart(inputs: Tensors) -> Tensors:
    q, r = torch.linalg.qr(inputs[0])
    return [flip(q, -1), r]


def qr_not_triangular(inputs: Tensors) -> Tensors:
    """An orthogonal factor and what is left: all of the product, none of the form."""
    u, s, vh = torch.linalg.svd(inputs[0], full_matrices=False)
    return [u, s.unsqueeze(-1) * vh]


def svd_flipped(inputs: Tensors) -> Tensors:
    u, s, vh = torch.linalg.svd(inputs[0].double(), full_matrices=False)
    return [flip(u, -1).float(), s.float(), flip(vh, -2).float()]


def svd_short(inputs: Tensors) -> Tensors:
    u, s, vh = svd_flipped(inputs)
    return [u.bfloat16().float(), s, vh]


def eig_reordered(inputs: Tensors) -> Tensors:
    w, v = torch.linalg.eig(inputs[0].double())
    phase = torch.exp(1j * torch.arange(w.shape[-1]))
    return [w.flip(-1).to(torch.complex64), (v * phase).flip(-1).to(torch.complex64)]


def eig_with_one_twice(inputs: Tensors) -> Tensors:
    w, v = torch.linalg.eig(inputs[0])
    return [torch.cat([w[..., :1], w[..., :-1]], -1), torch.cat([v[..., :1], v[..., :-1]], -1)]


EIGH = ("return torch.linalg.eigh(x)", SYMMETRIC)
QR = ("return torch.linalg.qr(x)", "torch.randn(20, 12)")
SVD = ("return torch.linalg.svd(x, full_matrices=False)", "torch.randn(2, 20, 12)")
EIG = ("return torch.linalg.eig(x)", "torch.randn(12, 12)")


@pytest.mark.parametrize(
    ("module", "answer"),
    [(EIGH, eigh_flipped), (QR, qr_flipped), (SVD, svd_flipped), (EIG, eig_reordered)],
    ids=lambda thing: getattr(thing, "__name__", ""),
)
def test_other_signs_phases_and_orders_are_as_right(
    program: Started, task: Callable[..., dict[str, Any]], module: tuple[str, str], answer: Answer
) -> None:
    assert task(*module)["weak_check"] == ""
    found = program.judged(answer)
    assert found["passed"], found
    assert any(check["detail"] == "judged by its properties" for check in found["checks"])


@pytest.mark.parametrize(
    ("module", "answer", "words"),
    [
        (EIGH, eigh_skewed, "residual"),
        (EIGH, eigh_unordered, "AV = V diag(w)"),
        (QR, qr_flipped_apart, "QR = A"),
        (QR, qr_not_triangular, "R upper triangular"),
        (SVD, svd_short, "residual"),
        (EIG, eig_with_one_twice, "w as the module's"),
        (EIGH, lambda inputs: [torch.linalg.eigvalsh(inputs[0]), torch.zeros(3, 12, 12)], "V'V = I"),
        (QR, lambda inputs: [torch.full((20, 12), torch.nan), torch.zeros(12, 12)], "residual inf"),
    ],
    ids=lambda thing: getattr(thing, "__name__", ""),
)
def test_wrong_factors_fail_and_the_property_is_named(
    program: Started, task: Callable[..., dict[str, Any]], module: tuple[str, str], answer: Answer, words: str
) -> None:
    task(*module)
    found = program.judged(answer)
    assert (found["passed"], found["kind"]) == (False, "values")
    assert words in found["detail"]


@pytest.mark.parametrize(
    ("body", "inputs", "answer"),
    [
        ("return torch.linalg.qr(x)[0]", "torch.randn(20, 12)", lambda inputs: qr_flipped(inputs)[:1]),
        ("return torch.linalg.qr(x)[1]", "torch.randn(20, 12)", lambda inputs: qr_flipped(inputs)[1:]),
        ("return torch.linalg.eigh(x)[1]", SYMMETRIC, lambda inputs: eigh_flipped(inputs)[1:]),
        ("return torch.linalg.svd(x, full_matrices=False)[0]", "torch.randn(20, 12)", lambda x: svd_flipped(x)[:1]),
    ],
)
def test_a_factor_that_is_returned_alone_is_held_to_the_same(
    program: Started, task: Callable[..., dict[str, Any]], body: str, inputs: str, answer: Answer
) -> None:
    task(body, inputs)
    assert program.judged(answer)["passed"]
    found = program.judged(lambda given: [part.roll(1, -1) for part in answer(given)])
    assert not found["passed"]


def test_eigenvalues_alone_are_compared_as_any_output(program: Started, task: Callable[..., dict[str, Any]]) -> None:
    assert task("return torch.linalg.eigvalsh(x)", SYMMETRIC)["weak_check"] == ""
    assert program.judged(lambda inputs: [torch.linalg.eigvalsh(inputs[0].double()).float()])["passed"]
    assert not program.judged(lambda inputs: [torch.linalg.eigvalsh(inputs[0]) * 1.001])["passed"]


def test_what_depends_on_the_signs_further_on_is_a_weak_check_and_what_does_not_is_none(
    program: Started, task: Callable[..., dict[str, Any]]
) -> None:
    assert "signs of eigenvectors" in task("return torch.linalg.eigh(x)[1].relu()", SYMMETRIC)["weak_check"]
    assert task("w, v = torch.linalg.eigh(x); return (v * w.exp().unsqueeze(-2)) @ v.mT", SYMMETRIC)["weak_check"] == ""
