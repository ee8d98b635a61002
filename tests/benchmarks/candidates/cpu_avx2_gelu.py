"""Intrinsics and an std algorithm."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <immintrin.h>

torch::Tensor scaled(torch::Tensor x, double s) {
    auto out = torch::empty(x.sizes(), x.options());
    const float* a = x.data_ptr<float>();
    float* o = out.data_ptr<float>();
    const int64_t n = x.numel();
    int64_t i = 0;
#ifdef __AVX2__
    const __m256 f = _mm256_set1_ps((float)s);
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(o + i, _mm256_mul_ps(_mm256_loadu_ps(a + i), f));
#endif
    for (; i < n; ++i) o[i] = a[i] * (float)s;
    std::vector<float> top(o, o + n);
    std::sort(top.begin(), top.end());
    o[0] = std::clamp(o[0], top.front(), top.back());
    return out;
}
"""
ext = load_inline("scaled_ext", source, functions="scaled", extra_cflags=["-O3", "-mavx2"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.scaled(inputs[0], 0.5)


def get_inputs():
    return [torch.randn(4096)]
