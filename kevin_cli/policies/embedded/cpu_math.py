"""C++ for the mathematics inside CPU kernels: plain branch-free functions that gcc turns into vector code.

libm's scalar `expf` would cost more than everything else in a fused kernel. Coefficients are our own weighted
least-squares fits (near minimax) in float64. Largest errors found against float64, over all finite results, in
units in the last place: exp 1.1, log 1.1, expm1 1.8, log1p 1.6, tanh 1.7, erf 1.2 (`test_math.py` holds them).
NaN gives NaN; infinities, overflow and subnormal results are those of libm.
"""

from __future__ import annotations

BITS = """\
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
"""
EXP = """\
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
"""
LOG = """\
// log(x) = e * ln(2) + log(m) with m in [sqrt(1/2), sqrt(2)).
INLINE float log_f32(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const int32_t bits = bits_of_float(scaled) - 0x3f3504f3;  // sqrt(1/2)
  const int32_t e = bits >> 23;
  const float f = float_from_bits((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float exponent = static_cast<float>(e) - (tiny ? 23.0f : 0.0f);
  float p = -0.0763558816f;
  p = p * f + 0.127633003f;
  p = p * f + -0.131605952f;
  p = p * f + 0.142015575f;
  p = p * f + -0.166232975f;
  p = p * f + 0.200012332f;
  p = p * f + -0.250008227f;
  p = p * f + 0.333333317f;
  const float square = f * f;
  const float small = (p * f) * square + exponent * 1.42860677e-6f;
  const float finite = exponent * 0.693145752f + (f + (small - 0.5f * square));
  const float infinity = std::numeric_limits<float>::infinity();
  const float positive = x < infinity ? finite : x;
  const float special = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : -infinity;
  return x > 0.0f ? positive : (x != x ? x : special);
}
"""
EXPM1 = """\
INLINE float expm1_f32(float x) {
  const float t = x < -0.5f ? -0.5f : (x > 0.5f ? 0.5f : x);
  float p = 0.00019849807f;
  p = p * t + 0.00139961772f;
  p = p * t + 0.00833357905f;
  p = p * t + 0.0416653586f;
  p = p * t + 0.16666664f;
  p = p * t + 0.500000039f;
  const float near = (p * t) * t + t;
  const float far = exp_f32(x) - 1.0f;
  return (x >= -0.5f && x <= 0.5f) ? near : far;
}
"""
LOG1P = """\
// log(1 + x) with the part of x that 1 + x rounds away put back.
INLINE float log1p_f32(float x) {
  const float u = 1.0f + x;
  const float logarithm = log_f32(u);
  const float lost = (x - (u - 1.0f)) / u;
  return (x > -1.0f && x < 3.0e38f) ? logarithm + lost : logarithm;
}
"""
TANH = """\
INLINE float tanh_f32(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = x * x;
  float p = -0.00570497836f;
  p = p * s + 0.0206390787f;
  p = p * s + -0.0537397122f;
  p = p * s + 0.133314422f;
  p = p * s + -0.333332819f;
  const float near = (p * s) * x + x;
  const float far = 1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f);
  return a < 0.625f ? near : (x < 0.0f ? -far : far);
}
"""
ERF = """\
// erf(x) = x + x * P(x^2) near zero, 1 - exp(-t * Q(t)) beyond.
INLINE float erf_f32(float x) {
  const float a = x < 0.0f ? -x : x;
  const float t = a > 4.0f ? 4.0f : a;
  const float s = x * x;
  float p = -0.000595373924f;
  p = p * s + 0.00498594007f;
  p = p * s + -0.0267617195f;
  p = p * s + 0.112816825f;
  p = p * s + -0.376124811f;
  p = p * s + 0.128379148f;
  const float near = p * x + x;
  float q = 1.04331147e-05f;
  q = q * t + -0.000314858116f;
  q = q * t + 0.00361034196f;
  q = q * t + -0.023694566f;
  q = q * t + 0.106159049f;
  q = q * t + 0.635198034f;
  q = q * t + 1.12863708f;
  const float far = 1.0f - exp_f32(-(q * t));
  return a < 0.93f ? near : (x < 0.0f ? -far : far);
}
"""
SIGMOID = """\
INLINE float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }
"""
EXTREMES = """\
// As torch: NaN when either is NaN.
template <typename T>
INLINE T max_nan(T a, T b) { return (a > b || a != a) ? a : b; }
template <typename T>
INLINE T min_nan(T a, T b) { return (a < b || a != a) ? a : b; }
"""
BFLOAT16 = """\
INLINE float load_bfloat16(uint16_t bits) { return float_from_bits(static_cast<int32_t>(bits) << 16); }

// Round to nearest, ties to even; NaN stays NaN.
INLINE uint16_t store_bfloat16(float value) {
  const uint32_t bits = static_cast<uint32_t>(bits_of_float(value));
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(value != value ? 0x7fc0u : rounded);
}

INLINE float round_bfloat16(float value) { return load_bfloat16(store_bfloat16(value)); }
"""
FLOAT16 = """\
INLINE float round_float16(float value) { return static_cast<float>(static_cast<_Float16>(value)); }
"""
HUGE_PAGES = """\
// A large fresh output costs one page fault for each 4 KiB; huge pages make that one for each 2 MiB.
static void ask_for_huge_pages(void* data, size_t num_bytes) {
#ifdef __linux__
  const uintptr_t page = uintptr_t{2} << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1);
  const uintptr_t last = (reinterpret_cast<uintptr_t>(data) + num_bytes) & ~(page - 1);
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}
"""
STREAM = """\
// Stores that go around the cache: the output is not read back before it is overwritten.
static void stream_out(float* target, const float* source, int64_t count) {
  int64_t done = 0;
#ifdef __AVX__
  while (done < count && reinterpret_cast<uintptr_t>(target + done) % 32 != 0) {
    target[done] = source[done];
    ++done;
  }
  for (; done + 8 <= count; done += 8) _mm256_stream_ps(target + done, _mm256_loadu_ps(source + done));
#endif
  for (; done < count; ++done) target[done] = source[done];
}
"""

CHECKED_PLACE = """\
// A place outside of the tensor is noted, and the call raises when the kernel is done.
static std::atomic<bool> place_is_outside{false};
INLINE int64_t checked_place(int64_t place, int64_t size, bool wraps) {
  if (wraps && place < 0) place += size;
  if (place >= 0 && place < size) return place;
  place_is_outside.store(true, std::memory_order_relaxed);
  return 0;
}
"""

PIECES: dict[str, tuple[str, tuple[str, ...]]] = {
    "bits": (BITS, ()),
    "exp": (EXP, ("bits",)),
    "log": (LOG, ("bits",)),
    "expm1": (EXPM1, ("exp",)),
    "log1p": (LOG1P, ("log",)),
    "tanh": (TANH, ("exp",)),
    "erf": (ERF, ("exp",)),
    "sigmoid": (SIGMOID, ("exp",)),
    "maximum": (EXTREMES, ()),
    "minimum": (EXTREMES, ()),
    "bfloat16": (BFLOAT16, ("bits",)),
    "float16": (FLOAT16, ()),
    "bounded": (CHECKED_PLACE, ()),
    "window": (EXTREMES, ()),
    "huge_pages": (HUGE_PAGES, ()),
    "stream": (STREAM, ()),
}
"""Name -> its source and the pieces that it needs. Most names are the operations that use them."""


def prelude(names: set[str]) -> str:
    """The pieces that a kernel needs, in an order that compiles, each once."""
    texts: list[str] = []

    def visit(name: str) -> None:
        text, needed = PIECES[name]
        for other in needed:
            visit(other)
        if text not in texts:
            texts.append(text)

    for name in sorted(names & PIECES.keys()):
        visit(name)
    return "\n".join(texts)
