"""Max pooling with indices, int64 outputs, full and full_like, long shapes."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
#include <cfloat>

__global__ void pool(const float* x, float* y, int64_t* where, int64_t rows, int64_t cols, int64_t window) {
  const int64_t out_cols = cols / window, i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= rows * out_cols) return;
  const int64_t row = i / out_cols, start = i % out_cols * window;
  float best = -FLT_MAX;
  int64_t at = start;
  for (int64_t k = start; k < start + window; ++k)
    if (x[row * cols + k] > best) { best = x[row * cols + k]; at = k; }
  y[i] = best;
  where[i] = at;
}
std::vector<at::Tensor> max_pool(at::Tensor x, int window) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() /= window;
  at::Tensor y = at::full(shape, -1.0, x.options());
  at::Tensor where = at::full_like(y, -1, y.options().dtype(at::kLong));
  const int64_t total = y.numel();
  pool<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), where.data_ptr<int64_t>(), x.size(0), x.size(-1), window);
  return {y, where};
}
"""
ext = load_inline(
    name="pool",
    cpp_sources="std::vector<at::Tensor> max_pool(at::Tensor x, int window);",
    cuda_sources=source,
    functions="max_pool",
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.max_pool(x, 4)[0]


def get_inputs():
    return [torch.randn(17, 64)]
