# expect: correct
# says:
# family: cuda
# device: cuda
"""A warp for each row; float atomics add the rows up in any order."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

__global__ void kernel(const float* logits, const int64_t* target, float* loss, int rows, int classes) {
    const int row = blockIdx.x, lane = threadIdx.x;
    const float* from = logits + row * classes;
    float largest = -INFINITY, sum = 0.0f;
    for (int j = lane; j < classes; j += 32) largest = fmaxf(largest, from[j]);
    for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    for (int j = lane; j < classes; j += 32) sum += expf(from[j] - largest);
    for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, half);
    if (lane == 0) atomicAdd(loss, (logf(sum) + (largest - from[target[row]])) / rows);
}

torch::Tensor run(torch::Tensor logits, torch::Tensor target) {
    auto loss = torch::zeros({}, logits.options());
    kernel<<<logits.size(0), 32, 0, c10::cuda::getCurrentCUDAStream()>>>(
        logits.data_ptr<float>(), target.data_ptr<int64_t>(), loss.data_ptr<float>(), logits.size(0), logits.size(1));
    return loss;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor logits, torch::Tensor target);"

kernel = load_inline(name="cuda_atomic", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return kernel.run(logits, target)
