"""CUDA units compile here although nothing runs: generated styles, on torch's bundled toolkit headers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from kevin_cli.harness.build.compile import Compiled
from kevin_cli.harness.build.extension import from_load_inline
from kevin_cli.harness.worker.extensions import load_thin
from kevin_cli.types import DeviceKind

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")

KERNEL = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>

template <typename scalar_t>
__global__ void twice(torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> x, scalar_t* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x.size(0)) y[i] = x[i] + x[i];
}
__global__ void halves(const __half* x, __half* y) { y[threadIdx.x] = __hadd(x[threadIdx.x], x[threadIdx.x]); }

torch::Tensor twice_cuda(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "x must be on the GPU, is on ", x.device());
    const c10::cuda::CUDAGuard guard(x.device());
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND2(torch::kHalf, torch::kBFloat16, x.scalar_type(), "twice", [&] {
        const dim3 blocks((x.numel() + 255) / 256), threads(256);
        twice<scalar_t><<<blocks, threads>>>(x.packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>(),
                                             y.data_ptr<scalar_t>());
    });
    halves<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(reinterpret_cast<__half*>(x.data_ptr<at::Half>()),
                                                           reinterpret_cast<__half*>(y.data_ptr<at::Half>()));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
DECLARATION = "torch::Tensor twice_cuda(torch::Tensor x);"


@pytest.fixture(scope="module")
def built(compiled: Callable[..., Compiled]) -> Compiled:
    return compiled(from_load_inline("twice", DECLARATION, KERNEL, functions=["twice_cuda"]), DeviceKind.CUDA)


def test_a_kernel_launched_in_the_usual_ways_compiles_thin(built: Compiled) -> None:
    assert built.library is not None, built.log
    assert built.way == "thin"


def test_its_checks_run_even_where_its_kernel_cannot(built: Compiled) -> None:
    assert built.library is not None
    module: ModuleType = load_thin(built.library, "twice")
    with pytest.raises(RuntimeError, match="x must be on the GPU, is on cpu"):
        module.twice_cuda(torch.zeros(4))


def test_an_error_in_a_kernel_names_the_users_line(compiled: Callable[..., Compiled]) -> None:
    broken = "__global__ void k(float* x) {\n  x[blockIDx.x] = 0;\n}\n"
    failed = compiled(from_load_inline("broken", "", broken), DeviceKind.CUDA)
    assert failed.library is None
    assert failed.way == "thin"
    assert failed.log.startswith('cuda_sources(2): error: identifier "blockIDx" is undefined')


def test_an_operator_between_tensors_costs_a_second_thin_attempt(compiled: Callable[..., Compiled]) -> None:
    source = "torch::Tensor half(torch::Tensor x) { return x / 2; }"
    again = compiled(
        from_load_inline("half", "torch::Tensor half(torch::Tensor x);", source, functions="half"), DeviceKind.CUDA
    )
    assert again.library is not None, again.log
    assert again.way == "thin"
    assert torch.equal(load_thin(again.library, "half").half(torch.ones(2)), torch.full((2,), 0.5))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_launch_on_stream_0_follows_torchs_current_stream(built: Compiled) -> None:
    assert built.library is not None
    module = load_thin(built.library, "twice")
    x = torch.ones(64, dtype=torch.float16, device="cuda")
    module.twice_cuda(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # a launch on the legacy stream would end the capture with an error
        y = module.twice_cuda(x)
    x.fill_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), torch.full((64,), 6.0, dtype=torch.float16))
