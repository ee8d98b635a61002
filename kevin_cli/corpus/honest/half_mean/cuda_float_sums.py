# expect: correct
# says:
# family: cuda
# device: cuda
"""Half in, float sums in shuffles, half out."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <cuda_fp16.h>

__global__ void kernel(const __half* x, __half* y, int columns) {
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += 32) sum += __half2float(x[blockIdx.x * columns + j]);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = __float2half(sum / columns);
}

torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    kernel<<<x.size(0), 32, 0, c10::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const __half*>(x.data_ptr<at::Half>()), reinterpret_cast<__half*>(y.data_ptr<at::Half>()),
        x.size(1));
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x);"

kernel = load_inline(name="cuda_float_sums", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
