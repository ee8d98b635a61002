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
#define __launch_bounds__(threads)

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static dim3 threadIdx, blockIdx;
using std::max;
using std::min;
static float __fdividef(float x, float y) { return x / y; }
static float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(128 << 10);
  dim3 thread;
  bool done = false;
};
static std::vector<Fiber> fibers;
static std::vector<float> exchange;
static ucontext_t scheduler;
static size_t current;
static std::function<void()> body;

static void sync_point() { swapcontext(&fibers[current].context, &scheduler); }
static void __syncthreads() { sync_point(); }
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
[[noreturn]] static void __trap() { std::abort(); }
static void fiber_main() {
  body();
  fibers[current].done = true;
  swapcontext(&fibers[current].context, &scheduler);
}

static void launch(unsigned blocks, dim3 block, std::function<void()> kernel) {
  const size_t count = block.x * block.y;
  body = kernel;
  exchange.assign(count, NAN);
  for (unsigned number = 0; number < blocks; ++number) {
    blockIdx = dim3(number);
    fibers.assign(count, Fiber());
    for (size_t index = 0; index < count; ++index) {
      Fiber& fiber = fibers[index];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.thread = dim3(index % block.x, index / block.x);
      makecontext(&fiber.context, fiber_main, 0);
    }
    for (bool running = true; running;) {
      running = false;
      for (current = 0; current < count; ++current) {
        if (fibers[current].done) continue;
        threadIdx = fibers[current].thread;
        swapcontext(&scheduler, &fibers[current].context);
        running = running || !fibers[current].done;
      }
    }
  }
}
