import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __AVX__
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE float float_from_bits(int32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

INLINE int32_t bits_of_float(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// exp(x) = 2^n * exp(r) with |r| <= ln(2)/2; 2^n in two halves, so that subnormal results are rounded once.
INLINE float exp_f32(float x) {
  const float t = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number in the low bits
  const float shifted = t * 1.44269504f + magic;
  const int32_t n = bits_of_float(shifted) - bits_of_float(magic);
  const float whole = shifted - magic;
  const float r = (t - whole * 0.693145752f) - whole * 1.42860677e-6f;
  float p = 0.00138131424f;
  p = p * r + 0.00836941904f;
  p = p * r + 0.0416684568f;
  p = p * r + 0.166665148f;
  p = p * r + 0.499999931f;
  p = (p * r) * r + r;
  const int32_t half = n >> 1;
  return ((p + 1.0f) * float_from_bits((half + 127) << 23)) * float_from_bits((n - half + 127) << 23);
}

// erf(x) = x + x * P(x^2) near zero, 1 - exp(-t * Q(t)) beyond.
INLINE float erf_f32(float x) {
  const float a = x < 0.0f ? -x : x;
  const float t = a > 4.0f ? 4.0f : a;
  const float s = x * x;
  float p = -0.000595373924f;
  p = p * s + 0.00498594007f;
  p = p * s + -0.0267617195f;
  p = p * s + 0.112816825f;
  p = p * s + -0.376124811f;
  p = p * s + 0.128379148f;
  const float near = p * x + x;
  float q = 1.04331147e-05f;
  q = q * t + -0.000314858116f;
  q = q * t + 0.00361034196f;
  q = q * t + -0.023694566f;
  q = q * t + 0.106159049f;
  q = q * t + 0.635198034f;
  q = q * t + 1.12863708f;
  const float far = 1.0f - exp_f32(-(q * t));
  return a < 0.93f ? near : (x < 0.0f ? -far : far);
}

// A large fresh output costs one page fault for each 4 KiB; huge pages make that one for each 2 MiB.
static void ask_for_huge_pages(void* data, size_t num_bytes) {
#ifdef __linux__
  const uintptr_t page = uintptr_t{2} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + num_bytes) & ~(page - 1);
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// As torch: NaN when either is NaN.
template <typename T>
INLINE T max_nan(T a, T b) { return (a > b || a != a) ? a : b; }
template <typename T>
INLINE T min_nan(T a, T b) { return (a < b || a != a) ? a : b; }

// Stores that go around the cache: the output is not read back before it is overwritten.
static void stream_out(float* target, const float* source, int64_t count) {
  int64_t done = 0;
#ifdef __AVX__
  while (done < count && reinterpret_cast<uintptr_t>(target + done) % 32 != 0) {
    target[done] = source[done];
    ++done;
  }
  for (; done + 8 <= count; done += 8) _mm256_stream_ps(target + done, _mm256_loadu_ps(source + done));
#endif
  for (; done < count; ++done) target[done] = source[done];
}

// memory-bound: reads bias [2048], x [2048, 2048]; writes [2048, 2048]; 32.0 MiB in all
static void gelu_chain_kernel(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ output, int num_threads) {
  ask_for_huge_pages(output, 4194304 * sizeof(float));
#pragma omp parallel num_threads(num_threads)
  {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < 2048; ++row) {
      const float* x_row = x + row * 2048;
      float* output_row = output + row * 2048;
      for (int64_t block = 0; block < 2048; block += 1024) {
        const int64_t block_end = std::min<int64_t>(block + 1024, 2048);
        alignas(64) float output_block[1024];
#pragma omp simd
        for (int64_t column = block; column < block_end; ++column) {
          const float x_value = x_row[column];
          const float bias_value = bias[column];
          const float add = x_value + bias_value;
          const float mul = add * 1.5f;
          const float mul_2 = 0.5f * mul;
          const float mul_3 = mul * 0.70710677f;
          const float erf_ = erf_f32(mul_3);
          const float add_2 = 1.0f + erf_;
          const float gelu = mul_2 * add_2;
          const float maximum = max_nan(gelu, (-2.0f));
          const float clamp = min_nan(maximum, 2.0f);
          const float add_1 = clamp + 0.5f;
          output_block[column - block] = add_1;
        }
        stream_out(output_row + block, output_block, block_end - block);
      }
    }
  }
}

torch::Tensor gelu_chain(const torch::Tensor& x, const torch::Tensor& bias, int64_t num_threads) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && x.dim() == 2 && x.is_cpu(), "x: unexpected type, rank or device");
  TORCH_CHECK(x.size(0) == 2048 && x.size(1) == 2048, "x: expected shape [2048, 2048]");
  TORCH_CHECK(x.is_contiguous(), "x: expected a contiguous tensor");
  TORCH_CHECK(bias.scalar_type() == torch::kFloat32 && bias.dim() == 1 && bias.is_cpu(), "bias: unexpected type, rank or device");
  TORCH_CHECK(bias.size(0) == 2048, "bias: expected shape [2048]");
  TORCH_CHECK(bias.is_contiguous(), "bias: expected a contiguous tensor");
  torch::Tensor output_tensor = torch::empty({2048, 2048}, x.options().dtype(torch::kFloat32));
  const auto* x_data = static_cast<const float*>(x.data_ptr());
  const auto* bias_data = static_cast<const float*>(bias.data_ptr());
  auto* output_data = static_cast<float*>(output_tensor.data_ptr());
  gelu_chain_kernel(x_data, bias_data, output_data, static_cast<int>(num_threads));
  return output_tensor;
}
"""

kernels = load_inline(
    name="kevin_gelu_chain",
    cpp_sources=[SOURCE],
    functions=["gelu_chain"],
    extra_cflags=["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, features, scale, limit):
        super().__init__()
        self.register_parameter("bias", nn.Parameter(torch.zeros([2048], dtype=torch.float32)))

    def forward(self, x):
        add_1 = kernels.gelu_chain(x, self.bias, torch.get_num_threads())
        return add_1
