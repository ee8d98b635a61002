// at::parallel_for on torch's own thread pool, through the C interface.
#pragma once
#include <exception>

#include <kevin/tensor.h>

namespace kevin_torch {
namespace impl {
template <class F> struct ParallelBody {
  const F& body;
  std::exception_ptr error{};
  static void run(int64_t begin, int64_t end, void* self) {
    auto* const me = static_cast<ParallelBody*>(self);
    try {
      me->body(begin, end);
    } catch (...) {
      me->error = std::current_exception();  // no exception may cross the C interface
    }
  }
};
}  // namespace impl

template <class F> void parallel_for(int64_t begin, int64_t end, int64_t grain_size, const F& body) {
  impl::ParallelBody<F> wrapped{body};
  KEVIN_CALL(torch_parallel_for, begin, end, grain_size, impl::ParallelBody<F>::run, &wrapped);
  if (wrapped.error) std::rethrow_exception(wrapped.error);
}
inline int get_num_threads() {
  uint32_t out = 1;
  KEVIN_CALL(torch_get_num_threads, &out);
  return static_cast<int>(out);
}
inline int get_thread_num() {
  uint32_t out = 0;
  KEVIN_CALL(torch_get_thread_idx, &out);
  return static_cast<int>(out);
}
inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }
namespace internal { constexpr int64_t GRAIN_SIZE = 32768; }
}  // namespace kevin_torch
