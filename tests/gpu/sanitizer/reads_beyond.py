"""Reads up to three elements beyond the last row, into what the driver rounds an allocation up to; adds none of them.

Every output is right and nothing crashes: only memcheck sees it.
"""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

__global__ void sum_rows_by_four(const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const volatile float* from = x + static_cast<long long>(row) * columns;
  float total = 0.0f;
  for (int column = 0; column < columns; column += 4) {
    const float a = from[column], b = from[column + 1], c = from[column + 2], d = from[column + 3];
    total += a;
    if (column + 1 < columns) total += b;
    if (column + 2 < columns) total += c;
    if (column + 3 < columns) total += d;
  }
  y[row] = total;
}

torch::Tensor sum_rows(torch::Tensor x) {
  auto y = torch::empty({x.size(0)}, x.options());
  const int rows = static_cast<int>(x.size(0)), columns = static_cast<int>(x.size(1));
  sum_rows_by_four<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, columns);
  return y;
}
"""
extension = load_inline(
    name="reads_beyond",
    cpp_sources="torch::Tensor sum_rows(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["sum_rows"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.sum_rows(x)
