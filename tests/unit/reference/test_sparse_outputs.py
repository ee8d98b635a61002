"""Outputs that are mostly zero: the others are judged by their own magnitude, and zeros by the same."""

from __future__ import annotations

import torch

from kevin_cli.harness.reference.numerics import Compared, Expected, compare

SHAPE = (64, 1024)


def sine_of_normed_rows(x: torch.Tensor) -> torch.Tensor:
    """Where a row has one value, its argument is 32 whatever the value: a sine near 10 pi has few digits."""
    return torch.sin(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6))


def sparse() -> torch.Tensor:
    x = torch.zeros(SHAPE)
    rows = torch.arange(SHAPE[0])
    x[rows, rows] = torch.linspace(1.0, 3.0, SHAPE[0])
    x[rows, rows + 64] = torch.linspace(0.2, 4.0, SHAPE[0])
    return x


def judged(candidate: torch.Tensor, x: torch.Tensor) -> Compared:
    expected = Expected(own=sine_of_normed_rows(x), high=sine_of_normed_rows(x.double()), half=False)
    return compare(candidate, expected)


def test_another_rounding_of_few_values_among_zeros_is_right() -> None:
    x = sparse()
    scale = 1.0 / torch.sqrt(x.double().square().mean(-1, keepdim=True).float() + 1e-6)
    argument = torch.nextafter(x * scale, torch.tensor(torch.inf)) * (x != 0)
    assert judged(torch.sin(argument), x).passed


def test_a_leak_into_the_zeros_is_wrong() -> None:
    x = sparse()
    leaky = sine_of_normed_rows(x)
    leaky[5, 900] = 1e-4
    assert judged(leaky, x).kind == "values"


def test_a_value_off_by_a_ten_thousandth_among_zeros_is_wrong() -> None:
    x = sparse()
    off = sine_of_normed_rows(x)
    off[7, 7] += 1e-4
    assert judged(off, x).kind == "values"
