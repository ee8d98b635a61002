// Text for messages: what c10::str and TORCH_CHECK do with an ostringstream, without <sstream> (0.3 s).
#pragma once
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <kevin/abi.h>

namespace kevin_torch {

inline void append(std::string& out, const char* value) { out += value ? value : "(null)"; }
inline void append(std::string& out, const std::string& value) { out += value; }
inline void append(std::string& out, char value) { out += value; }
inline void append(std::string& out, bool value) { out += value ? '1' : '0'; }
inline void append(std::string& out, const void* value) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", value);
  out += text;
}
template <class T>
std::enable_if_t<std::is_arithmetic_v<T>> append(std::string& out, T value) {
  char text[40];
  if constexpr (std::is_floating_point_v<T>) {
    std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
  } else if constexpr (std::is_signed_v<T>) {
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(value));
  } else {
    std::snprintf(text, sizeof text, "%llu", static_cast<unsigned long long>(value));
  }
  out += text;
}

template <class... Parts>
std::string str(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  const char* what_without_backtrace() const { return what(); }
  const std::string msg() const { return what(); }
};
struct ValueError : Error { using Error::Error; };
struct TypeError : Error { using Error::Error; };
struct IndexError : Error { using Error::Error; };
struct NotImplementedError : Error { using Error::Error; };

template <class E>
[[noreturn]] __attribute__((noinline)) void raise(std::string message) { throw E(std::move(message)); }

// A failed call into libtorch. Its text is known from torch 2.13 on; before that torch prints it.
[[noreturn]] inline void raise_from_torch(const char* call) {
  const char* what = torch_exception_get_what_without_backtrace ? torch_exception_get_what_without_backtrace() : nullptr;
  throw Error(what && *what ? std::string(what) : std::string(call) + " failed");
}
#define KEVIN_CALL(name, ...) \
  do { if (name(__VA_ARGS__) != 0) ::kevin_torch::raise_from_torch(#name); } while (0)

template <class E, class... Parts>
[[noreturn]] __attribute__((noinline, cold)) void check_failed(const char* condition, const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0) {
    throw E(std::string("Expected ") + condition +
            " to be true, but got false.  (Could this error message be improved?  If so, please report an "
            "enhancement request to PyTorch.)");
  } else {
    throw E(str(parts...));
  }
}
}  // namespace kevin_torch

#define KEVIN_CHECK(type, condition, ...)                                              \
  do {                                                                                 \
    if (__builtin_expect(!(condition), 0))                                             \
      ::kevin_torch::check_failed<::kevin_torch::type>(#condition, ##__VA_ARGS__);     \
  } while (0)
#define TORCH_CHECK(condition, ...) KEVIN_CHECK(Error, condition, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) KEVIN_CHECK(ValueError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) KEVIN_CHECK(TypeError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) KEVIN_CHECK(IndexError, condition, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) KEVIN_CHECK(NotImplementedError, condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...) KEVIN_CHECK(Error, condition, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) ((void)0)
#define TORCH_CHECK_EQ(a, b) TORCH_CHECK((a) == (b), "Check failed: " #a " == " #b)
#define TORCH_CHECK_NE(a, b) TORCH_CHECK((a) != (b), "Check failed: " #a " != " #b)
#define TORCH_CHECK_LT(a, b) TORCH_CHECK((a) < (b), "Check failed: " #a " < " #b)
#define TORCH_CHECK_LE(a, b) TORCH_CHECK((a) <= (b), "Check failed: " #a " <= " #b)
#define TORCH_CHECK_GT(a, b) TORCH_CHECK((a) > (b), "Check failed: " #a " > " #b)
#define TORCH_CHECK_GE(a, b) TORCH_CHECK((a) >= (b), "Check failed: " #a " >= " #b)
#define AT_ASSERT(condition) TORCH_INTERNAL_ASSERT(condition)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, ##__VA_ARGS__)
#define AT_ERROR(...) ::kevin_torch::check_failed<::kevin_torch::Error>("", __VA_ARGS__)
#define TORCH_WARN(...) std::fprintf(stderr, "Warning: %s\n", ::kevin_torch::str(__VA_ARGS__).c_str())
#define TORCH_WARN_ONCE(...)                             \
  do {                                                   \
    static bool kevin_warned = false;                    \
    if (!kevin_warned) { kevin_warned = true; TORCH_WARN(__VA_ARGS__); } \
  } while (0)

#define C10_LIKELY(x) (__builtin_expect(static_cast<bool>(x), 1))
#define C10_UNLIKELY(x) (__builtin_expect(static_cast<bool>(x), 0))
#define C10_UNUSED [[maybe_unused]]
#define C10_RESTRICT __restrict
#define C10_ALWAYS_INLINE inline __attribute__((always_inline))
#ifdef __CUDACC__
#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_HOST_DEVICE __host__ __device__
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_WARP_SIZE 32
#else
#define C10_HOST
#define C10_DEVICE
#define C10_HOST_DEVICE
#endif
