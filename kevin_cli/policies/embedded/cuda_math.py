"""CUDA helpers of the generated kernels: vector loads, reductions over the threads of a row, rounding.

Only what a kernel uses is written into it. The mathematics itself is the CUDA library's (`expf`, `erff`, ...),
without fast-math. Reductions run in a fixed order, so results repeat bit for bit.
"""

from __future__ import annotations

VECTOR = """\
// Up to 16 bytes in one memory access.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vector {
  T v[N];
};

template <int N, typename T>
__device__ __forceinline__ Vector<T, N> load_vector(const T* from) {
  return *reinterpret_cast<const Vector<T, N>*>(from);
}

template <int N, typename T>
__device__ __forceinline__ void store_vector(T* to, const Vector<T, N>& value) {
  *reinterpret_cast<Vector<T, N>*>(to) = value;
}
"""
EXTREMES = """\
// As torch: NaN when either is NaN.
template <typename T>
__device__ __forceinline__ T max_nan(T a, T b) {
  return (a > b || a != a) ? a : b;
}
template <typename T>
__device__ __forceinline__ T min_nan(T a, T b) {
  return (a < b || a != a) ? a : b;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ float max_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
template <>
__device__ __forceinline__ float min_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif
"""
OPERATORS = """\
struct Sum {
  static constexpr float kIdentity = 0.0f;
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  static constexpr float kIdentity = -INFINITY;
  __device__ float operator()(float a, float b) const { return max_nan(a, b); }
};
struct Min {
  static constexpr float kIdentity = INFINITY;
  __device__ float operator()(float a, float b) const { return min_nan(a, b); }
};
"""
PRODUCT = """\
struct Product {
  static constexpr float kIdentity = 1.0f;
  __device__ float operator()(float a, float b) const { return a * b; }
};
"""
COLUMN_REDUCE = """\
// Over the kParts threads with the same threadIdx.x; every thread gets the result. All of the block must call it.
template <int kParts, typename Op>
__device__ __forceinline__ float column_reduce(float value, Op op) {
  if constexpr (kParts == 1) return value;
  __shared__ float parts[kParts][32];
  __syncthreads();  // an earlier call may still be reading
  parts[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  float result = parts[0][threadIdx.x];
#pragma unroll
  for (int part = 1; part < kParts; ++part) result = op(result, parts[part][threadIdx.x]);
  return result;
}
"""
SCAN = """\
// What all threads of the row before this one hold, put after `carry`, which then takes in the whole row's share.
// All threads of the block must call it.
template <int kThreads, typename Op>
__device__ __forceinline__ float row_scan(float value, float& carry, Op op) {
  constexpr int kLanes = kThreads < 32 ? kThreads : 32;
  const int lane = threadIdx.x % kLanes;
  float upto = value;
#pragma unroll
  for (int offset = 1; offset < kLanes; offset *= 2) {
    const float other = __shfl_up_sync(0xffffffffu, upto, offset, kLanes);
    if (lane >= offset) upto = op(other, upto);
  }
  float before = __shfl_up_sync(0xffffffffu, upto, 1, kLanes);
  if (lane == 0) before = Op::kIdentity;
  float total;
  if constexpr (kThreads > 32) {
    __shared__ float warps[32];
    __syncthreads();  // an earlier call may still be reading
    if (lane == 31) warps[threadIdx.x / 32] = upto;
    __syncthreads();
    float earlier = Op::kIdentity;
    total = Op::kIdentity;
    for (int warp = 0; warp < kThreads / 32; ++warp) {
      if (warp < static_cast<int>(threadIdx.x / 32)) earlier = op(earlier, warps[warp]);
      total = op(total, warps[warp]);
    }
    before = op(earlier, before);
  } else {
    total = __shfl_sync(0xffffffffu, upto, kLanes - 1, kLanes);
  }
  before = op(carry, before);
  carry = op(carry, total);
  return before;
}
"""
CHECKED_PLACE = """\
// As torch does on a GPU: a place outside of the tensor ends the program.
__device__ __forceinline__ int64_t checked_place(int64_t place, int64_t size, bool wraps) {
  if (wraps && place < 0) place += size;
  if (place < 0 || place >= size) __trap();
  return place;
}
"""
REDUCE = """\
// Over the kThreads threads of one row; every thread gets the result. All threads of the block must call it.
template <int kThreads, typename Op>
__device__ __forceinline__ float row_reduce(float value, Op op) {
  constexpr int kLanes = kThreads < 32 ? kThreads : 32;
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if constexpr (kThreads > 32) {
    __shared__ float parts[32];
    __syncthreads();  // an earlier call may still be reading
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < kThreads / 32 ? parts[threadIdx.x % 32] : Op::kIdentity;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}
"""
ALIGNED = """\
template <typename T>
bool is_aligned(const T* data, int vector) {
  const size_t num_bytes = sizeof(T) * vector;
  return reinterpret_cast<uintptr_t>(data) % (num_bytes < 16 ? num_bytes : 16) == 0;
}
"""
SIGMOID = """\
// The fast division is off by two units in the last place at most, and a fifth of the instructions.
__device__ __forceinline__ float sigmoid_f32(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
"""
BFLOAT16 = """\
__device__ __forceinline__ float round_bfloat16(float x) { return __bfloat162float(__float2bfloat16(x)); }
"""
FLOAT16 = """\
__device__ __forceinline__ float round_float16(float x) { return __half2float(__float2half_rn(x)); }
"""
PIECES: tuple[tuple[str, str], ...] = (
    ("load_vector|store_vector|Vector<", VECTOR),
    ("is_aligned", ALIGNED),
    ("max_nan|min_nan|row_reduce|column_reduce|row_scan", EXTREMES),
    ("row_reduce|column_reduce|row_scan", OPERATORS),
    ("Product", PRODUCT),
    ("row_reduce", REDUCE),
    ("column_reduce", COLUMN_REDUCE),
    ("row_scan", SCAN),
    ("checked_place", CHECKED_PLACE),
    ("sigmoid_f32", SIGMOID),
    ("round_bfloat16", BFLOAT16),
    ("round_float16", FLOAT16),
)
"""Words in the code that need a piece, and the piece, in an order that compiles."""


def prelude(code: str) -> str:
    """The pieces that some code uses."""
    return "\n".join(text for words, text in PIECES if any(word in code for word in words.split("|")))
