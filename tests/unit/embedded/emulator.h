// Runs generated CUDA kernels on the CPU: every thread of a block is a fiber, all of them advance from one
// synchronisation to the next in turn. Enough of CUDA for the kernels that the embedded proposer writes; catches
// wrong indices, missing guards and reductions over the wrong threads, not races or memory-system effects.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __cluster_dims__(x, y, z)

#define __align__(count) __attribute__((aligned(count)))

struct __nv_bfloat16 {
  uint16_t bits;
};
static float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
static __nv_bfloat16 __float2bfloat16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return {static_cast<uint16_t>(x != x ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static dim3 threadIdx, blockIdx;
using std::max;
using std::min;
static float __fdividef(float x, float y) { return x / y; }
static float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

struct int2 {
  int x, y;
};
struct int4 {
  int x, y, z, w;
};
template <typename T>
static T __ldcs(const T* from) { return *from; }
template <typename T>
static void __stcs(T* to, T value) { *to = value; }

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(128 << 10);
  dim3 thread, block;
  bool done = false;
};
static std::vector<Fiber> fibers;
static std::vector<float> exchange;
static ucontext_t scheduler;
static size_t current;
static unsigned cluster_size = 1;
static std::function<void()> body;

static void sync_point() { swapcontext(&fibers[current].context, &scheduler); }
static void __syncthreads() { sync_point(); }
static void __syncwarp() { sync_point(); }
static float __shfl_xor_sync(unsigned, float value, int offset) {
  const size_t self = current;
  exchange[self] = value;
  sync_point();
  const float other = exchange[self ^ static_cast<size_t>(offset)];
  sync_point();
  return other;
}
static float from_lane(float value, size_t lane, size_t width) {
  const size_t self = current;
  exchange[self] = value;
  sync_point();
  const float other = exchange[self - self % width + lane];
  sync_point();
  return other;
}
static float __shfl_sync(unsigned, float value, int lane, int width) { return from_lane(value, lane, width); }
static float __shfl_up_sync(unsigned, float value, int offset, int width) {
  const int lane = static_cast<int>(current % width);
  return from_lane(value, lane >= offset ? lane - offset : lane, width);
}
static int cluster_rank() { return static_cast<int>(blockIdx.x % cluster_size); }
// In place of the generated one, whose blocks write into each other's shared memory: here there is one for all.
template <int kThreads, int kBlocks, typename Op>
static float cluster_row_reduce(float value, Op op) {
  exchange[current] = value;
  sync_point();
  float result = Op::kIdentity;
  for (int thread = 0; thread < kThreads * kBlocks; ++thread) result = op(result, exchange[thread]);
  sync_point();
  return result;
}
template <int kParts, int kBlocks, typename Op>
static float cluster_column_reduce(float value, Op op) {
  exchange[current] = value;
  sync_point();
  float result = Op::kIdentity;
  for (int thread = current % 32; thread < kParts * 32 * kBlocks; thread += 32) result = op(result, exchange[thread]);
  sync_point();
  return result;
}
[[noreturn]] static void __trap() { std::abort(); }
// Tensor cores: every thread holds whole fragments, so that what one thread lays down all lay down.
namespace nvcuda {
namespace wmma {
struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major };
template <typename Use, int M, int N, int K, typename T, typename Order = void>
struct fragment {
  float x[16][16];
};
template <typename F>
static void fill_fragment(F& part, float value) {
  for (auto& row : part.x) std::fill_n(row, 16, value);
}
template <typename Use, typename T>
static void load_matrix_sync(fragment<Use, 16, 16, 16, T, row_major>& part, const T* from, unsigned step) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) part.x[i][j] = __bfloat162float(from[i * step + j]);
}
template <typename Use, typename T>
static void load_matrix_sync(fragment<Use, 16, 16, 16, T, col_major>& part, const T* from, unsigned step) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) part.x[i][j] = __bfloat162float(from[j * step + i]);
}
template <typename A, typename B, typename C>
static void mma_sync(C& result, const A& left, const B& right, const C& before) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      float sum = before.x[i][j];
      for (int k = 0; k < 16; ++k) sum += left.x[i][k] * right.x[k][j];
      result.x[i][j] = sum;
    }
}
template <typename F>
static void store_matrix_sync(float* to, const F& part, unsigned step, layout_t) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) to[i * step + j] = part.x[i][j];
}
}  // namespace wmma
}  // namespace nvcuda

static void fiber_main() {
  body();
  fibers[current].done = true;
  swapcontext(&fibers[current].context, &scheduler);
}

// Blocks of a cluster run together, clusters one after the other.
static void launch(unsigned blocks, dim3 block, std::function<void()> kernel, unsigned cluster = 1) {
  const size_t count = block.x * block.y * cluster;
  cluster_size = cluster;
  body = kernel;
  exchange.assign(count, NAN);
  for (unsigned number = 0; number < blocks; number += cluster) {
    fibers.assign(count, Fiber());
    for (size_t index = 0; index < count; ++index) {
      Fiber& fiber = fibers[index];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.thread = dim3(index % block.x, index / block.x % block.y);
      fiber.block = dim3(number + index / (block.x * block.y));
      makecontext(&fiber.context, fiber_main, 0);
    }
    for (bool running = true; running;) {
      running = false;
      for (current = 0; current < count; ++current) {
        if (fibers[current].done) continue;
        threadIdx = fibers[current].thread;
        blockIdx = fibers[current].block;
        swapcontext(&scheduler, &fibers[current].context);
        running = running || !fibers[current].done;
      }
    }
  }
}
