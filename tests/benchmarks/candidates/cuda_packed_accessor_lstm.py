"""packed_accessor32 with RestrictPtrTraits, AT_DISPATCH, several outputs as a vector."""

import torch
from torch.utils.cpp_extension import load_inline


cuda_source = """
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

template <typename scalar_t>
__device__ __forceinline__ scalar_t sigmoid(scalar_t z) { return 1.0 / (1.0 + exp(-z)); }

template <typename scalar_t>
__global__ void gates_kernel(
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> gates,
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> old_cell,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> new_cell,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> new_h) {
  const int n = blockIdx.y;
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  const int size = old_cell.size(1);
  if (c < size) {
    const scalar_t i = sigmoid(gates[n][c]), o = sigmoid(gates[n][c + size]), g = tanh(gates[n][c + 2 * size]);
    new_cell[n][c] = old_cell[n][c] + g * i;
    new_h[n][c] = tanh(new_cell[n][c]) * o;
  }
}

std::vector<torch::Tensor> lstm_cuda_forward(torch::Tensor gates, torch::Tensor old_cell) {
  auto new_h = torch::zeros_like(old_cell);
  auto new_cell = torch::zeros_like(old_cell);
  const int threads = 128;
  const dim3 blocks((old_cell.size(1) + threads - 1) / threads, old_cell.size(0));
  AT_DISPATCH_FLOATING_TYPES(gates.type().scalarType(), "lstm_forward_cuda", ([&] {
    gates_kernel<scalar_t><<<blocks, threads>>>(
        gates.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        old_cell.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        new_cell.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        new_h.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>());
  }));
  return {new_h, new_cell};
}
"""
cpp_source = "std::vector<torch::Tensor> lstm_cuda_forward(torch::Tensor gates, torch::Tensor old_cell);"
lstm = load_inline("lstm_gates", cpp_source, cuda_source, functions=["lstm_cuda_forward"])


class ModelNew(torch.nn.Module):
    def forward(self, gates, cell):
        return lstm.lstm_cuda_forward(gates, cell)[0]


def get_inputs():
    return [torch.randn(4, 3 * 200), torch.randn(4, 200)]
