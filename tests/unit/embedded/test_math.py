"""The vectorisable mathematics of CPU kernels against float64: the errors that `cpu_math.py` states, and the edges."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import torch

from kevin_cli.policies.embedded.cpu_math import prelude
from tests.unit.embedded.modules import HEADER, compiled_text

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, tuple[Function, tuple[float, float], float]] = {
    "exp": (torch.exp, (-87.0, 88.7), 1.1),
    "log": (torch.log, (1e-30, 1e30), 1.1),
    "expm1": (torch.expm1, (-20.0, 80.0), 1.8),
    "log1p": (torch.log1p, (-0.999, 1e6), 1.6),
    "tanh": (torch.tanh, (-12.0, 12.0), 1.7),
    "erf": (torch.erf, (-5.0, 5.0), 1.2),
}
"""Name: the function, a range, the largest error in units in the last place."""
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-30,
    -1e-30,
    1e-40,
    89.0,
    150.0,
    -103.5,
    -200.0,
    3.4e38,
    float("inf"),
    float("-inf"),
    float("nan"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    loops = "".join(
        f'extern "C" void {name}_all(const float* x, float* y, int64_t n) {{\n'
        f"#pragma omp simd\nfor (int64_t i = 0; i < n; ++i) y[i] = {name}_f32(x[i]); }}\n"
        for name in FUNCTIONS
    )
    return compiled_text(HEADER + prelude(set(FUNCTIONS)) + loops, tmp_path_factory.mktemp("math"))


def _apply(library: ctypes.CDLL, name: str, x: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(x)
    arguments = (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(result.data_ptr()), ctypes.c_int64(x.numel()))
    getattr(library, f"{name}_all")(*arguments)
    return result


def _samples(name: str) -> torch.Tensor:
    low, high = FUNCTIONS[name][1]
    generator = torch.Generator().manual_seed(0)
    even = torch.rand(1_000_000, generator=generator) * (high - low) + low
    near = torch.randn(1_000_000, generator=generator) * torch.exp(torch.randn(1_000_000, generator=generator) * 4)
    return torch.cat([even, near[(near > low) & (near < high)]])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_is_within_what_the_module_states(name: str, library: ctypes.CDLL) -> None:
    function, _, bound = FUNCTIONS[name]
    x = _samples(name)
    truth = function(x.double())
    rounded = truth.float().abs().clamp_min(1.2e-38)
    unit = (torch.nextafter(rounded, torch.tensor(float("inf"))) - rounded).double()
    error = ((_apply(library, name, x).double() - truth).abs() / unit).max()
    assert float(error) <= bound


@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges_are_those_of_the_library(name: str, library: ctypes.CDLL) -> None:
    x = torch.tensor(EDGES)
    truth = FUNCTIONS[name][0](x.double()).float()
    torch.testing.assert_close(_apply(library, name, x), truth, rtol=3e-7, atol=3e-45, equal_nan=True)
