"""Tensor cores through nvcuda::wmma, half inputs, float accumulation."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void wmma_gemm(const half* a, const half* b, float* c, int M, int N, int K) {
  const int m = blockIdx.y * 16, n = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(fa, a + m * K + k, K);
    wmma::load_matrix_sync(fb, b + k * N + n, N);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + m * N + n, fc, N, wmma::mem_row_major);
}

torch::Tensor gemm(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.dtype() == torch::kFloat16 && b.dtype() == torch::kHalf, "half only");
  const int M = a.size(0), K = a.size(1), N = b.size(1);
  TORCH_CHECK(M % 16 == 0 && N % 16 == 0 && K % 16 == 0, "sizes must be multiples of 16, got ", M, "x", N, "x", K);
  auto c = torch::empty({M, N}, a.options().dtype(torch::kFloat32));
  wmma_gemm<<<dim3(N / 16, M / 16), 32>>>(
      reinterpret_cast<const half*>(a.data_ptr<at::Half>()), reinterpret_cast<const half*>(b.data_ptr<at::Half>()),
      c.data_ptr<float>(), M, N, K);
  return c;
}
"""
ext = load_inline(
    name="wmma_ext",
    cpp_sources=["torch::Tensor gemm(torch::Tensor a, torch::Tensor b);"],
    cuda_sources=[source],
    functions=["gemm"],
    with_cuda=True,
)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return ext.gemm(a, b)


def get_inputs():
    return [torch.randn(64, 128).half(), torch.randn(128, 48).half()]
