"""Adds up a row in shared memory by one warp's first thread, without a barrier after the other warps wrote there.

Racecheck sees it, whether or not the sum comes out right.
"""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

__global__ void sum_row_unsynchronised(const float* __restrict__ x, float* __restrict__ y, int columns) {
  __shared__ float values[128];
  const int column = threadIdx.x;
  values[column] = column < columns ? x[static_cast<long long>(blockIdx.x) * columns + column] : 0.0f;
  // A __syncthreads() belongs here.
  if (column == 0) {
    float total = 0.0f;
    for (int i = 0; i < blockDim.x; ++i) total += values[i];
    y[blockIdx.x] = total;
  }
}

torch::Tensor sum_rows(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  sum_row_unsynchronised<<<static_cast<unsigned>(x.size(0)), 128>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), static_cast<int>(x.size(1)));
  return y;
}
"""
extension = load_inline(
    name="no_barrier",
    cpp_sources="torch::Tensor sum_rows(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["sum_rows"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.sum_rows(x)
