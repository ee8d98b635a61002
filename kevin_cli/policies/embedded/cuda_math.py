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
STREAM = """\
template <int kBytes>
struct Word;
template <>
struct Word<1> { using type = signed char; };
template <>
struct Word<2> { using type = short; };
template <>
struct Word<4> { using type = int; };
template <>
struct Word<8> { using type = int2; };
template <>
struct Word<16> { using type = int4; };

// The same, marked as not worth keeping in the cache: what is touched once should not push out what is not.
template <int N, typename T>
__device__ __forceinline__ Vector<T, N> load_once(const T* from) {
  using Part = typename Word<alignof(Vector<T, N>)>::type;
  Vector<T, N> value;
#pragma unroll
  for (int part = 0; part < static_cast<int>(sizeof(value) / sizeof(Part)); ++part) {
    reinterpret_cast<Part*>(&value)[part] = __ldcs(reinterpret_cast<const Part*>(from) + part);
  }
  return value;
}

template <int N, typename T>
__device__ __forceinline__ void store_once(T* to, const Vector<T, N>& value) {
  using Part = typename Word<alignof(Vector<T, N>)>::type;
#pragma unroll
  for (int part = 0; part < static_cast<int>(sizeof(value) / sizeof(Part)); ++part) {
    __stcs(reinterpret_cast<Part*>(to) + part, reinterpret_cast<const Part*>(&value)[part]);
  }
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
COLUMN_SCAN = """\
// What the threads with the same threadIdx.x and a smaller threadIdx.y hold together. All of the block must call it.
template <int kParts, typename Op>
__device__ __forceinline__ float column_before(float value, Op op) {
  __shared__ float parts[kParts][32];
  __syncthreads();  // an earlier call may still be reading
  parts[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  float before = Op::kIdentity;
  for (int part = 0; part < static_cast<int>(threadIdx.y); ++part) before = op(before, parts[part][threadIdx.x]);
  return before;
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
CLUSTER = """\
// A cluster of blocks, which can write into each other's shared memory (compute capability 9.0).
__device__ __forceinline__ int cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// Waits for all threads of all blocks of the cluster; what they wrote before, into each other's memory too, is seen.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Writes to the place in another block's shared memory where `mine` lies in this one's.
__device__ __forceinline__ void store_in_block(float* mine, int block, float value) {
  const unsigned here = static_cast<unsigned>(__cvta_generic_to_shared(mine));
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
  asm volatile("st.shared::cluster.f32 [%0], %1;" : : "r"(there), "f"(value) : "memory");
}

"""
CLUSTER_ROWS = """\
// Over the threads of the kBlocks blocks that share a row; every thread gets the result. All of them must call it.
template <int kThreads, int kBlocks, typename Op>
__device__ __forceinline__ float cluster_row_reduce(float value, Op op) {
  __shared__ float parts[kBlocks];
  value = row_reduce<kThreads>(value, op);
  cluster_sync();  // all blocks have begun, and none still reads the parts of an earlier call
  if (threadIdx.x < kBlocks) store_in_block(&parts[cluster_rank()], threadIdx.x, value);
  cluster_sync();
  float result = parts[0];
#pragma unroll
  for (int block = 1; block < kBlocks; ++block) result = op(result, parts[block]);
  return result;
}
"""
CLUSTER_COLUMNS = """\
// The same where each threadIdx.x has a row of its own, over the kParts x kBlocks threads that share it.
template <int kParts, int kBlocks, typename Op>
__device__ __forceinline__ float cluster_column_reduce(float value, Op op) {
  __shared__ float shares[kBlocks][32];
  value = column_reduce<kParts>(value, op);
  cluster_sync();  // all blocks have begun, and none still reads the shares of an earlier call
  for (int block = threadIdx.y; block < kBlocks; block += kParts) {
    store_in_block(&shares[cluster_rank()][threadIdx.x], block, value);
  }
  cluster_sync();
  float result = shares[0][threadIdx.x];
#pragma unroll
  for (int block = 1; block < kBlocks; ++block) result = op(result, shares[block][threadIdx.x]);
  return result;
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
    ("load_vector|store_vector|load_once|store_once|Vector<", VECTOR),
    ("load_once|store_once", STREAM),
    ("is_aligned", ALIGNED),
    ("max_nan|min_nan|row_reduce|column_reduce|row_scan|column_before", EXTREMES),
    ("row_reduce|column_reduce|row_scan|column_before", OPERATORS),
    ("Product", PRODUCT),
    ("row_reduce", REDUCE),
    ("cluster_rank", CLUSTER),
    ("cluster_row_reduce", CLUSTER_ROWS),
    ("column_reduce", COLUMN_REDUCE),
    ("cluster_column_reduce", CLUSTER_COLUMNS),
    ("row_scan", SCAN),
    ("column_before", COLUMN_SCAN),
    ("checked_place", CHECKED_PLACE),
    ("sigmoid_f32", SIGMOID),
    ("round_bfloat16", BFLOAT16),
    ("round_float16", FLOAT16),
)
"""Words in the code that need a piece, and the piece, in an order that compiles."""


def prelude(code: str) -> str:
    """The pieces that some code uses."""
    return "\n".join(text for words, text in PIECES if any(word in code for word in words.split("|")))
