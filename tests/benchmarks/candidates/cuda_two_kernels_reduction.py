"""A block reduction in two launches with warp shuffles, and item() at the end."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <limits>

__inline__ __device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffff, v, offset);
  return v;
}
__global__ void partial(const float* x, float* out, int n) {
  static __shared__ float shared[32];
  float v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) v += x[i] * x[i];
  int lane = threadIdx.x % warpSize, wid = threadIdx.x / warpSize;
  v = warp_sum(v);
  if (lane == 0) shared[wid] = v;
  __syncthreads();
  v = threadIdx.x < blockDim.x / warpSize ? shared[lane] : 0;
  if (wid == 0) v = warp_sum(v);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}
__global__ void scale(const float* x, const float* norm, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / sqrtf(*norm);
}
torch::Tensor normalise(torch::Tensor x) {
  const int n = static_cast<int>(x.numel());
  auto part = torch::empty({64}, x.options()), total = torch::zeros({1}, x.options()), y = torch::empty(x.sizes(), x.options());
  partial<<<64, 256>>>(x.data_ptr<float>(), part.data_ptr<float>(), n);
  total.copy_(part.sum().view({1}));
  scale<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), total.data_ptr<float>(), y.data_ptr<float>(), n);
  AT_ASSERTM(cudaGetLastError() == cudaSuccess, "launch failed");
  return y;
}
"""
ext = load_inline("norm", "torch::Tensor normalise(torch::Tensor x);", source, functions=["normalise"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.normalise(x)


def get_inputs():
    return [torch.randn(10000)]
