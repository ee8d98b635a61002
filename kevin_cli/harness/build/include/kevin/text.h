// Messages: what c10::str and TORCH_CHECK do with an ostringstream, without <sstream> and without <string>.
//
// Parsing <string> costs half a second in each of nvcc's passes, so nothing that every unit sees needs it:
// text is built in a `Text`, and what throws is compiled once (support/core.cpp). `kevin/errors.h` has the
// exceptions themselves, for sources that name them.
#pragma once
#include <type_traits>
#include <utility>
#if __has_include(<bits/stringfwd.h>)
#include <bits/stringfwd.h>  // libstdc++'s declaration of std::string alone
#else
#include <string>
#endif

#include <kevin/abi.h>

namespace kevin_torch {

class Text {  // characters that grow; ends with a zero
 public:
  Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text();
  Text& add(const char* characters, size_t count);
  Text& add(const char* characters);
  const char* c_str() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_;
  size_t size_, room_;
};

void append(Text& out, const char* value);
void append(Text& out, char value);
void append(Text& out, bool value);
void append(Text& out, const void* value);
void append_number(Text& out, double value);
void append_number(Text& out, long long value);
void append_number(Text& out, unsigned long long value);
template <class T>
std::enable_if_t<std::is_arithmetic_v<T>> append(Text& out, T value) {
  if constexpr (std::is_floating_point_v<T>) append_number(out, static_cast<double>(value));
  else if constexpr (std::is_signed_v<T>) append_number(out, static_cast<long long>(value));
  else append_number(out, static_cast<unsigned long long>(value));
}
template <class S, class = decltype(std::declval<const S&>().c_str())>  // std::string, where there is one
void append(Text& out, const S& value) { out.add(value.c_str(), value.size()); }

// Which exception, for whoever only throws; the classes are in kevin/errors.h.
enum class Fault { Error, ValueError, TypeError, IndexError, NotImplementedError };
[[noreturn]] void fail(Fault kind, const char* message);
template <class... Parts>
[[noreturn]] __attribute__((noinline, cold)) void fail_with(Fault kind, const Parts&... parts) {
  Text out;
  (append(out, parts), ...);
  fail(kind, out.c_str());
}

// A failed call into libtorch. Its text is known from torch 2.13 on; before that torch prints it.
[[noreturn]] void raise_from_torch(const char* call);
void print_warning(const char* text);
#define KEVIN_CALL(name, ...) \
  do { if (name(__VA_ARGS__) != 0) ::kevin_torch::raise_from_torch(#name); } while (0)

template <class... Parts>
[[noreturn]] __attribute__((noinline, cold)) void check_failed(Fault kind, const char* condition, const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0) {
    fail_with(kind, "Expected ", condition,
              " to be true, but got false.  (Could this error message be improved?  If so, please report an "
              "enhancement request to PyTorch.)");
  } else {
    fail_with(kind, parts...);
  }
}
template <class... Parts> void warn(const Parts&... parts) {
  Text out;
  (append(out, parts), ...);
  print_warning(out.c_str());
}
}  // namespace kevin_torch

#define KEVIN_CHECK(type, condition, ...)                                              \
  do {                                                                                 \
    if (__builtin_expect(!(condition), 0))                                             \
      ::kevin_torch::check_failed(::kevin_torch::Fault::type, #condition, ##__VA_ARGS__); \
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
#define AT_ERROR(...) ::kevin_torch::check_failed(::kevin_torch::Fault::Error, "", __VA_ARGS__)
#define TORCH_WARN(...) ::kevin_torch::warn(__VA_ARGS__)
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
