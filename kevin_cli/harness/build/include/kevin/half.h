// Half and BFloat16 as c10 has them: 16 bits, arithmetic through float, interchangeable with CUDA's types.
#pragma once
#include <cstring>
#include <limits>

#include <kevin/text.h>

struct __half;
struct __nv_bfloat16;

namespace kevin_torch {

C10_HOST_DEVICE inline float float_from_bits(uint32_t bits) {
  union { uint32_t u; float f; } both{bits};
  return both.f;
}
C10_HOST_DEVICE inline uint32_t bits_from_float(float value) {
  union { float f; uint32_t u; } both{value};
  return both.u;
}

// Rounds to nearest even, like c10/util/Half.h (whose branch-free method this follows).
C10_HOST_DEVICE inline uint16_t half_bits(float value) {
#if defined(__CUDA_ARCH__)
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#elif defined(__F16C__) && !defined(__CUDACC__)
  typedef float Four __attribute__((vector_size(16)));
  return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(Four{value, 0, 0, 0}, 0)[0]);
#else
  const float to_infinity = float_from_bits(0x77800000u), to_zero = float_from_bits(0x08800000u);
  const uint32_t word = bits_from_float(value), doubled = word + word, sign = word & 0x80000000u;
  float base = (float_from_bits(word & 0x7fffffffu) * to_infinity) * to_zero;
  uint32_t bias = doubled & 0xff000000u;
  if (bias < 0x71000000u) bias = 0x71000000u;
  base = float_from_bits((bias >> 1) + 0x07800000u) + base;
  const uint32_t bits = bits_from_float(base);
  const uint32_t rest = ((bits >> 13) & 0x7c00u) + (bits & 0x0fffu);
  return static_cast<uint16_t>((sign >> 16) | (doubled > 0xff000000u ? 0x7e00u : rest));
#endif
}
C10_HOST_DEVICE inline float half_value(uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#elif defined(__F16C__) && !defined(__CUDACC__)
  typedef short Eight __attribute__((vector_size(16)));
  return __builtin_ia32_vcvtph2ps(Eight{static_cast<short>(bits), 0, 0, 0, 0, 0, 0, 0})[0];
#else
  const uint32_t word = static_cast<uint32_t>(bits) << 16, sign = word & 0x80000000u, doubled = word + word;
  const float normal = float_from_bits((doubled >> 4) + (0xe0u << 23)) * float_from_bits(0x07800000u);
  const float denormal = float_from_bits((doubled >> 17) | (126u << 23)) - 0.5f;
  return float_from_bits(sign | bits_from_float(doubled < (1u << 27) ? denormal : normal));
#endif
}
C10_HOST_DEVICE inline uint16_t bfloat16_bits(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  if (value != value) return 0x7fc0;
  const uint32_t word = bits_from_float(value);
  return static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
#endif
}

#define KEVIN_SIXTEEN_BITS(Name, Cuda, encode, decode)                                                      \
  struct alignas(2) Name {                                                                                  \
    uint16_t x;                                                                                             \
    struct from_bits_t {};                                                                                  \
    C10_HOST_DEVICE static constexpr from_bits_t from_bits() { return {}; }                                 \
    Name() = default;                                                                                       \
    C10_HOST_DEVICE constexpr Name(uint16_t bits, from_bits_t) : x(bits) {}                                 \
    C10_HOST_DEVICE Name(float value) : x(encode(value)) {}                                                 \
    template <class T, std::enable_if_t<std::is_same_v<T, ::Cuda>, int> = 0>                                \
    C10_HOST_DEVICE Name(const T& value) { std::memcpy(&x, static_cast<const void*>(&value), 2); }          \
    C10_HOST_DEVICE operator float() const { return decode; }                                               \
    template <class T, std::enable_if_t<std::is_same_v<T, ::Cuda>, int> = 0>                                \
    C10_HOST_DEVICE operator T() const {                                                                    \
      T out;                                                                                                \
      std::memcpy(static_cast<void*>(&out), &x, 2);                                                         \
      return out;                                                                                           \
    }                                                                                                       \
  };                                                                                                        \
  C10_HOST_DEVICE inline Name operator+(const Name& a, const Name& b) { return float(a) + float(b); }       \
  C10_HOST_DEVICE inline Name operator-(const Name& a, const Name& b) { return float(a) - float(b); }       \
  C10_HOST_DEVICE inline Name operator*(const Name& a, const Name& b) { return float(a) * float(b); }       \
  C10_HOST_DEVICE inline Name operator/(const Name& a, const Name& b) { return float(a) / float(b); }       \
  C10_HOST_DEVICE inline Name operator-(const Name& a) { return -float(a); }                                \
  C10_HOST_DEVICE inline Name& operator+=(Name& a, const Name& b) { return a = a + b; }                     \
  C10_HOST_DEVICE inline Name& operator-=(Name& a, const Name& b) { return a = a - b; }                     \
  C10_HOST_DEVICE inline Name& operator*=(Name& a, const Name& b) { return a = a * b; }                     \
  C10_HOST_DEVICE inline Name& operator/=(Name& a, const Name& b) { return a = a / b; }                     \
  KEVIN_MIXED(Name, +) KEVIN_MIXED(Name, -) KEVIN_MIXED(Name, *) KEVIN_MIXED(Name, /)                       \
  C10_HOST_DEVICE inline float& operator+=(float& a, const Name& b) { return a += float(b); }               \
  C10_HOST_DEVICE inline float& operator-=(float& a, const Name& b) { return a -= float(b); }               \
  C10_HOST_DEVICE inline float& operator*=(float& a, const Name& b) { return a *= float(b); }               \
  C10_HOST_DEVICE inline float& operator/=(float& a, const Name& b) { return a /= float(b); }

// With float and double the result is theirs; with integers it stays 16 bits wide, as in c10.
#define KEVIN_MIXED(Name, op)                                                                               \
  C10_HOST_DEVICE inline float operator op(Name a, float b) { return float(a) op b; }                       \
  C10_HOST_DEVICE inline float operator op(float a, Name b) { return a op float(b); }                       \
  C10_HOST_DEVICE inline double operator op(Name a, double b) { return double(float(a)) op b; }             \
  C10_HOST_DEVICE inline double operator op(double a, Name b) { return a op double(float(b)); }             \
  C10_HOST_DEVICE inline Name operator op(Name a, int b) { return a op Name(float(b)); }                    \
  C10_HOST_DEVICE inline Name operator op(int a, Name b) { return Name(float(a)) op b; }                    \
  C10_HOST_DEVICE inline Name operator op(Name a, int64_t b) { return a op Name(float(b)); }                \
  C10_HOST_DEVICE inline Name operator op(int64_t a, Name b) { return Name(float(a)) op b; }

KEVIN_SIXTEEN_BITS(Half, __half, half_bits, half_value(x))
KEVIN_SIXTEEN_BITS(BFloat16, __nv_bfloat16, bfloat16_bits, float_from_bits(static_cast<uint32_t>(x) << 16))
#undef KEVIN_SIXTEEN_BITS
#undef KEVIN_MIXED

inline void append(Text& out, Half value) { append(out, float(value)); }
inline void append(Text& out, BFloat16 value) { append(out, float(value)); }
}  // namespace kevin_torch

namespace std {
#define KEVIN_LIMITS(Name, LOWEST, MIN, MAX, EPSILON, INFINITE, NAN_BITS, DENORM, DIGITS)                   \
  template <> class numeric_limits<kevin_torch::Name> {                                                     \
    using T = kevin_torch::Name;                                                                            \
    C10_HOST_DEVICE static constexpr T bits(uint16_t value) { return T(value, T::from_bits()); }            \
   public:                                                                                                  \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false,    \
                          has_infinity = true, has_quiet_NaN = true, is_bounded = true;                     \
    static constexpr int digits = DIGITS, radix = 2;                                                        \
    C10_HOST_DEVICE static constexpr T lowest() { return bits(LOWEST); }                                    \
    C10_HOST_DEVICE static constexpr T min() { return bits(MIN); }                                          \
    C10_HOST_DEVICE static constexpr T max() { return bits(MAX); }                                          \
    C10_HOST_DEVICE static constexpr T epsilon() { return bits(EPSILON); }                                  \
    C10_HOST_DEVICE static constexpr T infinity() { return bits(INFINITE); }                                \
    C10_HOST_DEVICE static constexpr T quiet_NaN() { return bits(NAN_BITS); }                               \
    C10_HOST_DEVICE static constexpr T denorm_min() { return bits(DENORM); }                                \
  };
KEVIN_LIMITS(Half, 0xFBFF, 0x0400, 0x7BFF, 0x1400, 0x7C00, 0x7E00, 0x0001, 11)
KEVIN_LIMITS(BFloat16, 0xFF7F, 0x0080, 0x7F7F, 0x3C00, 0x7F80, 0x7FC0, 0x0001, 8)
#undef KEVIN_LIMITS
}  // namespace std
