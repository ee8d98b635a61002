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

// A large fresh output costs one page fault for each 4 KiB; huge pages make that one for each 2 MiB.
static void ask_for_huge_pages(void* data, size_t num_bytes) {
#ifdef __linux__
  const uintptr_t page = uintptr_t{2} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + num_bytes) & ~(page - 1);
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

// memory-bound: reads bias [2048], residual [2048, 2048], x [2048, 2048]; writes [2048, 2048]; 48.0 MiB in all
static void bias_silu_residual_kernel(const float* __restrict__ x, const float* __restrict__ bias, const float* __restrict__ residual, float* __restrict__ output, int num_threads) {
  ask_for_huge_pages(output, 4194304 * sizeof(float));
#pragma omp parallel num_threads(num_threads)
  {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < 2048; ++row) {
      const float* x_row = x + row * 2048;
      const float* residual_row = residual + row * 2048;
      float* output_row = output + row * 2048;
#pragma omp simd
      for (int64_t column = 0; column < 2048; ++column) {
        const float x_value = x_row[column];
        const float bias_value = bias[column];
        const float add = x_value + bias_value;
        const float neg = -add;
        const float exp_ = exp_f32(neg);
        const float add_2 = 1.0f + exp_;
        const float silu = add / add_2;
        const float residual_value = residual_row[column];
        const float add_1 = silu + residual_value;
        output_row[column] = add_1;
      }
    }
  }
}

torch::Tensor bias_silu_residual(const torch::Tensor& x, const torch::Tensor& bias, const torch::Tensor& residual, int64_t num_threads) {
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && x.dim() == 2 && x.is_cpu(), "x: unexpected type, rank or device");
  TORCH_CHECK(x.size(0) == 2048 && x.size(1) == 2048, "x: expected shape [2048, 2048]");
  TORCH_CHECK(x.is_contiguous(), "x: expected a contiguous tensor");
  TORCH_CHECK(bias.scalar_type() == torch::kFloat32 && bias.dim() == 1 && bias.is_cpu(), "bias: unexpected type, rank or device");
  TORCH_CHECK(bias.size(0) == 2048, "bias: expected shape [2048]");
  TORCH_CHECK(bias.is_contiguous(), "bias: expected a contiguous tensor");
  TORCH_CHECK(residual.scalar_type() == torch::kFloat32 && residual.dim() == 2 && residual.is_cpu(), "residual: unexpected type, rank or device");
  TORCH_CHECK(residual.size(0) == 2048 && residual.size(1) == 2048, "residual: expected shape [2048, 2048]");
  TORCH_CHECK(residual.is_contiguous(), "residual: expected a contiguous tensor");
  torch::Tensor output_tensor = torch::empty({2048, 2048}, x.options().dtype(torch::kFloat32));
  const auto* x_data = static_cast<const float*>(x.data_ptr());
  const auto* bias_data = static_cast<const float*>(bias.data_ptr());
  const auto* residual_data = static_cast<const float*>(residual.data_ptr());
  auto* output_data = static_cast<float*>(output_tensor.data_ptr());
  bias_silu_residual_kernel(x_data, bias_data, residual_data, output_data, static_cast<int>(num_threads));
  return output_tensor;
}
"""

kernels = load_inline(
    name="kevin_bias_silu_residual",
    cpp_sources=[SOURCE],
    functions=["bias_silu_residual"],
    extra_cflags=["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"],
    extra_ldflags=["-fopenmp"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_parameter("bias", nn.Parameter(torch.zeros([2048], dtype=torch.float32)))

    def forward(self, x, residual):
        add_1 = kernels.bias_silu_residual(x, self.bias, residual, torch.get_num_threads())
        return add_1
