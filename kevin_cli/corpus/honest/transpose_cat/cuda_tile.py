# expect: correct
# says:
# family: cuda
# device: cuda
"""Through a tile in shared memory, so that reads and writes are both in order."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void turn(const float* x, float* out, int a, int b, int more) {
    __shared__ float room[16][17];
    const float* from = x + blockIdx.z * a * b;
    float* to = out + blockIdx.z * (b + more) * a;
    int j = blockIdx.y * 16 + threadIdx.y, i = blockIdx.x * 16 + threadIdx.x;
    if (j < a && i < b) room[threadIdx.y][threadIdx.x] = from[j * b + i];
    __syncthreads();
    j = blockIdx.y * 16 + threadIdx.x;
    i = blockIdx.x * 16 + threadIdx.y;
    if (j < a && i < b) to[i * a + j] = room[threadIdx.x][threadIdx.y];
}

__global__ void append(const float* y, float* out, int a, int b, int more, int batch) {
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= batch * more * a) return;
    const int n = k / (more * a), rest = k % (more * a);
    out[n * (b + more) * a + b * a + rest] = y[k];
}

torch::Tensor run(torch::Tensor x, torch::Tensor y) {
    const int batch = x.size(0), a = x.size(1), b = x.size(2), more = y.size(1);
    auto out = torch::empty({batch, b + more, a}, x.options());
    auto stream = c10::cuda::getCurrentCUDAStream();
    turn<<<dim3((b + 15) / 16, (a + 15) / 16, batch), dim3(16, 16), 0, stream>>>(
        x.data_ptr<float>(), out.data_ptr<float>(), a, b, more);
    append<<<(batch * more * a + 127) / 128, 128, 0, stream>>>(
        y.data_ptr<float>(), out.data_ptr<float>(), a, b, more, batch);
    return out;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor y);"

kernel = load_inline(name="cuda_tile", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return kernel.run(x, y)
