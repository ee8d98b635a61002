"""Intrinsics from immintrin.h with a scalar tail."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
#include <immintrin.h>
torch::Tensor axpy(torch::Tensor x, torch::Tensor y, double alpha) {
  auto out = torch::empty_like(x);
  const float *a = x.data_ptr<float>(), *b = y.data_ptr<float>();
  float* o = out.data_ptr<float>();
  const int64_t n = x.numel();
  int64_t i = 0;
#ifdef __AVX2__
  const __m256 s = _mm256_set1_ps((float)alpha);
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(o + i, _mm256_add_ps(_mm256_mul_ps(s, _mm256_loadu_ps(a + i)), _mm256_loadu_ps(b + i)));
#endif
  for (; i < n; ++i) o[i] = (float)alpha * a[i] + b[i];
  return out;
}
"""
ext = load_inline(
    name="avx_intrinsics_fma",
    cpp_sources=source,
    functions=["axpy"],
    extra_cflags=["-O2", "-mavx2", "-ffp-contract=off"],
)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.axpy(*inputs, 1.5)


def get_inputs():
    return [torch.randn(1003), torch.randn(1003)]
