"""A functor passed to a templated kernel, and a switch on a string argument."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
#include <string>

struct Tanh { __device__ float operator()(float x) const { return tanhf(x); } };
struct Softplus { __device__ float operator()(float x) const { return x > 20.f ? x : log1pf(expf(x)); } };

template <class F> __global__ void map(const float* x, float* y, size_t n, F f) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = f(x[i]);
}
template <class F> void launch(const torch::Tensor& x, torch::Tensor& y, F f) {
  map<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel(), f);
}
torch::Tensor activate(torch::Tensor x, const std::string& kind) {
  auto y = torch::empty_like(x);
  if (kind == "tanh") launch(x, y, Tanh());
  else if (kind == "softplus") launch(x, y, Softplus());
  else TORCH_CHECK(false, "unknown activation '", kind, "'");
  return y;
}
"""
ext = load_inline(
    name="act",
    cpp_sources="#include <string>\ntorch::Tensor activate(torch::Tensor x, const std::string& kind);",
    cuda_sources=source,
    functions=["activate"],
)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.activate(x, "tanh") + ext.activate(x, "softplus")


def get_inputs():
    return [torch.randn(4096)]
