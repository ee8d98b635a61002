# expect: correct
# says:
# family: cuda
# device: cuda
"""A scan in shared memory with two buffers, one block for each row."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* x, float* y, int columns) {
    __shared__ float room[2][256];
    const int t = threadIdx.x;
    int now = 0;
    room[0][t] = t < columns ? x[blockIdx.x * columns + t] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        room[1 - now][t] = room[now][t] + (t >= step ? room[now][t - step] : 0.0f);
        now = 1 - now;
        __syncthreads();
    }
    if (t < columns) y[blockIdx.x * columns + t] = room[now][t];
}

torch::Tensor run(torch::Tensor x) {
    TORCH_CHECK(x.size(1) <= 256, "rows of at most 256");
    auto y = torch::empty_like(x);
    kernel<<<x.size(0), 256, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"

kernel = load_inline(name="cuda_scan", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
