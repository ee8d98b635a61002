// The exceptions that torch's C++ side throws, and c10::str: for sources that name one, and for support/.
#pragma once
#include <stdexcept>
#include <string>

#include <kevin/text.h>

namespace kevin_torch {
std::string to_string(const Text& text);
template <class... Parts> std::string str(const Parts&... parts) {
  Text out;
  (append(out, parts), ...);
  return to_string(out);
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
}  // namespace kevin_torch
