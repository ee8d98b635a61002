"""Block softmax over floating types and half."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAGuard.h>

template <typename scalar_t>
__global__ void softmax_kernel(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int cols) {
    __shared__ float shared[256];
    const int row = blockIdx.x, t = threadIdx.x;
    float m = -INFINITY;
    for (int i = t; i < cols; i += blockDim.x) m = fmaxf(m, static_cast<float>(x[row * cols + i]));
    shared[t] = m;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (t < k) shared[t] = fmaxf(shared[t], shared[t + k]);
        __syncthreads();
    }
    m = shared[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = t; i < cols; i += blockDim.x) sum += expf(static_cast<float>(x[row * cols + i]) - m);
    shared[t] = sum;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (t < k) shared[t] += shared[t + k];
        __syncthreads();
    }
    for (int i = t; i < cols; i += blockDim.x)
        y[row * cols + i] = static_cast<scalar_t>(expf(static_cast<float>(x[row * cols + i]) - m) / shared[0]);
}

torch::Tensor softmax_cuda(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "softmax_cuda", ([&] {
        softmax_kernel<scalar_t><<<x.size(0), 256>>>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.size(1));
    }));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""
cpp_source = "torch::Tensor softmax_cuda(torch::Tensor x);"
ext = load_inline("softmax", [cpp_source], [cuda_source], functions=["softmax_cuda"], extra_cuda_cflags=["-O3"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.softmax_cuda(*inputs)


def get_inputs():
    return [torch.randn(64, 1000)]
