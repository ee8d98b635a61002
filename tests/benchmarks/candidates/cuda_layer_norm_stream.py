"""Layer norm with float4 on the current stream."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

__global__ void layer_norm_kernel(const float4* x, const float4* w, const float4* b, float4* y, int cols4, float eps) {
    __shared__ float sums[32], squares[32];
    const float4* row = x + (size_t)blockIdx.x * cols4;
    float s = 0.f, q = 0.f;
    for (int i = threadIdx.x; i < cols4; i += blockDim.x) {
        float4 v = row[i];
        s += v.x + v.y + v.z + v.w;
        q += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_down_sync(0xffffffff, s, o);
        q += __shfl_down_sync(0xffffffff, q, o);
    }
    if (threadIdx.x % 32 == 0) { sums[threadIdx.x / 32] = s; squares[threadIdx.x / 32] = q; }
    __syncthreads();
    s = q = 0.f;
    for (int i = 0; i < blockDim.x / 32; ++i) { s += sums[i]; q += squares[i]; }
    const float n = 4.f * cols4, mean = s / n, scale = rsqrtf(q / n - mean * mean + eps);
    for (int i = threadIdx.x; i < cols4; i += blockDim.x) {
        float4 v = row[i], g = w[i], h = b[i];
        y[(size_t)blockIdx.x * cols4 + i] = make_float4(
            (v.x - mean) * scale * g.x + h.x, (v.y - mean) * scale * g.y + h.y,
            (v.z - mean) * scale * g.z + h.z, (v.w - mean) * scale * g.w + h.w);
    }
}

at::Tensor layer_norm(at::Tensor x, at::Tensor w, at::Tensor b, double eps) {
    auto y = at::empty_like(x);
    const int cols4 = x.size(-1) / 4, rows = x.numel() / x.size(-1);
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    layer_norm_kernel<<<rows, 256, 0, stream>>>(
        reinterpret_cast<const float4*>(x.data_ptr<float>()), reinterpret_cast<const float4*>(w.data_ptr<float>()),
        reinterpret_cast<const float4*>(b.data_ptr<float>()), reinterpret_cast<float4*>(y.data_ptr<float>()),
        cols4, eps);
    C10_CUDA_CHECK(cudaGetLastError());
    return y;
}
"""
cpp_source = "at::Tensor layer_norm(at::Tensor x, at::Tensor w, at::Tensor b, double eps);"
ext = load_inline(
    name="ln",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["layer_norm"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.layer_norm(*inputs, 1e-5)


def get_inputs():
    return [torch.randn(64, 1024), torch.rand(1024), torch.randn(1024)]
