// The torch operators that generated code calls around its kernels. What is not here makes the build
// fall back to torch's own headers.
#pragma once
#include <kevin/python.h>

namespace kevin_torch {
using python::keyword;

#define KEVIN_X(name)                                                                             \
  inline Tensor Tensor::name() const { return KEVIN_FIND(#name)({}, *this); }                     \
  inline Tensor& Tensor::name##_() { KEVIN_FIND(#name "_")({}, *this); return *this; }            \
  inline Tensor name(const Tensor& self) { return self.name(); }
KEVIN_UNARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name)                                                                             \
  inline Tensor Tensor::name() const { return KEVIN_FIND(#name)({}, *this); }                     \
  inline Tensor name(const Tensor& self) { return self.name(); }
KEVIN_X(isnan) KEVIN_X(isinf) KEVIN_X(isfinite) KEVIN_X(logical_not)
#undef KEVIN_X

#define KEVIN_X(name)                                                                                             \
  inline Tensor Tensor::name(const Tensor& other) const { return KEVIN_FIND(#name)({}, *this, other); }           \
  inline Tensor Tensor::name(const Scalar& other) const { return KEVIN_FIND(#name)({}, *this, other); }           \
  inline Tensor& Tensor::name##_(const Tensor& other) { KEVIN_FIND(#name "_")({}, *this, other); return *this; }  \
  inline Tensor& Tensor::name##_(const Scalar& other) { KEVIN_FIND(#name "_")({}, *this, other); return *this; }  \
  inline Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }                        \
  inline Tensor name(const Tensor& self, const Scalar& other) { return self.name(other); }
KEVIN_BINARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                             \
  inline Tensor Tensor::name(const Tensor& other, const Scalar& alpha) const {                                    \
    return KEVIN_FIND(#name)({keyword("alpha", alpha)}, *this, other);                                            \
  }                                                                                                               \
  inline Tensor Tensor::name(const Scalar& other, const Scalar& alpha) const {                                    \
    return KEVIN_FIND(#name)({keyword("alpha", alpha)}, *this, other);                                            \
  }                                                                                                               \
  inline Tensor& Tensor::name##_(const Tensor& other, const Scalar& alpha) {                                      \
    KEVIN_FIND(#name "_")({keyword("alpha", alpha)}, *this, other);                                               \
    return *this;                                                                                                 \
  }                                                                                                               \
  inline Tensor& Tensor::name##_(const Scalar& other, const Scalar& alpha) {                                      \
    KEVIN_FIND(#name "_")({keyword("alpha", alpha)}, *this, other);                                               \
    return *this;                                                                                                 \
  }                                                                                                               \
  inline Tensor name(const Tensor& self, const Tensor& other, const Scalar& alpha = 1) { return self.name(other, alpha); } \
  inline Tensor name(const Tensor& self, const Scalar& other, const Scalar& alpha = 1) { return self.name(other, alpha); }
KEVIN_ALPHA_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                    \
  inline Tensor Tensor::name(const Tensor& other) const { return KEVIN_FIND(#name)({}, *this, other); }  \
  inline Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }
KEVIN_TENSOR_OPERATORS(KEVIN_X)
#undef KEVIN_X

inline Tensor Tensor::pow(const Scalar& exponent) const { return KEVIN_FIND("pow")({}, *this, exponent); }
inline Tensor Tensor::pow(const Tensor& exponent) const { return KEVIN_FIND("pow")({}, *this, exponent); }
inline Tensor pow(const Tensor& self, const Scalar& exponent) { return self.pow(exponent); }
inline Tensor pow(const Tensor& self, const Tensor& exponent) { return self.pow(exponent); }

inline Tensor Tensor::operator-() const { return neg(); }
#define KEVIN_X(op, name)                                                                                       \
  inline Tensor& Tensor::operator op##=(const Tensor& other) { return name##_(other); }                         \
  inline Tensor& Tensor::operator op##=(const Scalar& other) { return name##_(other); }                         \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return a.name(b); }                             \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return a.name(b); }
KEVIN_X(+, add) KEVIN_X(-, sub) KEVIN_X(*, mul) KEVIN_X(/, div)
#undef KEVIN_X
inline Tensor operator+(const Scalar& a, const Tensor& b) { return b.add(a); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return b.mul(a); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return KEVIN_FIND("rsub")({}, b, a); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return b.reciprocal().mul(a); }
#define KEVIN_X(op, name)                                                              \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return a.name(b); }    \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return a.name(b); }
KEVIN_X(==, eq) KEVIN_X(!=, ne) KEVIN_X(<, lt) KEVIN_X(<=, le) KEVIN_X(>, gt) KEVIN_X(>=, ge)
#undef KEVIN_X

// --- reductions ------------------------------------------------------------------------------------

using OptionalType = std::optional<ScalarType>;
#define KEVIN_X(name)                                                                                            \
  inline Tensor Tensor::name(OptionalType dtype) const { return KEVIN_FIND(#name)({keyword("dtype", dtype)}, *this); } \
  inline Tensor Tensor::name(IntArrayRef dim, bool keepdim, OptionalType dtype) const {                          \
    return KEVIN_FIND(#name)({keyword("dtype", dtype)}, *this, dim, keepdim);                                    \
  }                                                                                                              \
  inline Tensor name(const Tensor& self, OptionalType dtype = nullopt) { return self.name(dtype); }              \
  inline Tensor name(const Tensor& self, IntArrayRef dim, bool keepdim = false, OptionalType dtype = nullopt) {  \
    return self.name(dim, keepdim, dtype);                                                                       \
  }
KEVIN_X(sum) KEVIN_X(mean)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  inline Tensor Tensor::name(IntArrayRef dim, bool keepdim) const { return KEVIN_FIND(#name)({}, *this, dim, keepdim); } \
  inline Tensor name(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false) { return self.name(dim, keepdim); }
KEVIN_X(amax) KEVIN_X(amin) KEVIN_X(logsumexp)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  inline Tensor Tensor::name() const { return KEVIN_FIND(#name)({}, *this); }                                    \
  inline std::tuple<Tensor, Tensor> Tensor::name(int64_t dim, bool keepdim) const {                              \
    return KEVIN_FIND(#name).operator()<std::tuple<Tensor, Tensor>>({}, *this, dim, keepdim);                    \
  }                                                                                                              \
  inline Tensor name(const Tensor& self) { return self.name(); }                                                 \
  inline Tensor name(const Tensor& self, const Tensor& other) { return KEVIN_FIND(#name)({}, self, other); }     \
  inline std::tuple<Tensor, Tensor> name(const Tensor& self, int64_t dim, bool keepdim = false) {                \
    return self.name(dim, keepdim);                                                                              \
  }
KEVIN_X(max) KEVIN_X(min)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  inline Tensor Tensor::name(std::optional<int64_t> dim, bool keepdim) const {                                   \
    return KEVIN_FIND(#name)({}, *this, dim, keepdim);                                                           \
  }                                                                                                              \
  inline Tensor name(const Tensor& self, std::optional<int64_t> dim = nullopt, bool keepdim = false) {           \
    return self.name(dim, keepdim);                                                                              \
  }
KEVIN_X(argmax) KEVIN_X(argmin)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  inline Tensor Tensor::name(IntArrayRef dim, bool unbiased, bool keepdim) const {                               \
    return KEVIN_FIND(#name)({}, *this, dim, unbiased, keepdim);                                                 \
  }                                                                                                              \
  inline Tensor name(const Tensor& self, IntArrayRef dim, bool unbiased = true, bool keepdim = false) {          \
    return self.name(dim, unbiased, keepdim);                                                                    \
  }
KEVIN_X(var) KEVIN_X(std)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  inline Tensor Tensor::name(int64_t dim, OptionalType dtype) const {                                            \
    return KEVIN_FIND(#name)({keyword("dtype", dtype)}, *this, dim);                                             \
  }                                                                                                              \
  inline Tensor name(const Tensor& self, int64_t dim, OptionalType dtype = nullopt) { return self.name(dim, dtype); }
KEVIN_X(softmax) KEVIN_X(log_softmax) KEVIN_X(cumsum) KEVIN_X(cumprod)
#undef KEVIN_X
inline Tensor Tensor::prod(OptionalType dtype) const { return KEVIN_FIND("prod")({keyword("dtype", dtype)}, *this); }
inline Tensor prod(const Tensor& self, OptionalType dtype = nullopt) { return self.prod(dtype); }
inline Tensor Tensor::norm() const { return KEVIN_FIND("norm")({}, *this); }
inline Tensor norm(const Tensor& self) { return self.norm(); }

// --- others ----------------------------------------------------------------------------------------

using OptionalScalar = std::optional<Scalar>;
inline Tensor Tensor::clamp(const OptionalScalar& min, const OptionalScalar& max) const { return KEVIN_FIND("clamp")({}, *this, min, max); }
inline Tensor& Tensor::clamp_(const OptionalScalar& min, const OptionalScalar& max) { KEVIN_FIND("clamp_")({}, *this, min, max); return *this; }
inline Tensor Tensor::clamp_min(const Scalar& min) const { return KEVIN_FIND("clamp_min")({}, *this, min); }
inline Tensor Tensor::clamp_max(const Scalar& max) const { return KEVIN_FIND("clamp_max")({}, *this, max); }
inline Tensor clamp(const Tensor& self, const OptionalScalar& min = nullopt, const OptionalScalar& max = nullopt) { return self.clamp(min, max); }
inline Tensor clamp_min(const Tensor& self, const Scalar& min) { return self.clamp_min(min); }
inline Tensor clamp_max(const Tensor& self, const Scalar& max) { return self.clamp_max(max); }
inline Tensor Tensor::repeat(IntArrayRef repeats) const { return KEVIN_FIND("repeat")({}, *this, repeats); }
inline Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> dim) const { return KEVIN_FIND("repeat_interleave")({}, *this, repeats, dim); }
inline Tensor Tensor::index_select(int64_t dim, const Tensor& index) const { return KEVIN_FIND("index_select")({}, *this, dim, index); }
inline Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) { return self.index_select(dim, index); }
inline Tensor Tensor::gather(int64_t dim, const Tensor& index) const { return KEVIN_FIND("gather")({}, *this, dim, index); }
inline Tensor gather(const Tensor& self, int64_t dim, const Tensor& index) { return self.gather(dim, index); }
inline Tensor Tensor::masked_fill(const Tensor& mask, const Scalar& value) const { return KEVIN_FIND("masked_fill")({}, *this, mask, value); }
inline Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return KEVIN_FIND("where")({}, condition, a, b); }
inline Tensor Tensor::where(const Tensor& condition, const Tensor& other) const { return kevin_torch::where(condition, *this, other); }
inline Tensor Tensor::flip(IntArrayRef dims) const { return KEVIN_FIND("flip")({}, *this, dims); }
inline Tensor flip(const Tensor& self, IntArrayRef dims) { return self.flip(dims); }
inline Tensor Tensor::triu(int64_t diagonal) const { return KEVIN_FIND("triu")({}, *this, diagonal); }
inline Tensor Tensor::tril(int64_t diagonal) const { return KEVIN_FIND("tril")({}, *this, diagonal); }
inline Tensor triu(const Tensor& self, int64_t diagonal = 0) { return self.triu(diagonal); }
inline Tensor tril(const Tensor& self, int64_t diagonal = 0) { return self.tril(diagonal); }
using Tensors = std::vector<Tensor>;
inline Tensors Tensor::chunk(int64_t chunks, int64_t dim) const { return KEVIN_FIND("chunk").operator()<Tensors>({}, *this, chunks, dim); }
inline Tensors Tensor::split(int64_t size, int64_t dim) const { return KEVIN_FIND("split").operator()<Tensors>({}, *this, size, dim); }
inline Tensors Tensor::unbind(int64_t dim) const { return KEVIN_FIND("unbind").operator()<Tensors>({}, *this, dim); }
inline Tensors chunk(const Tensor& self, int64_t chunks, int64_t dim = 0) { return self.chunk(chunks, dim); }
inline Tensors split(const Tensor& self, int64_t size, int64_t dim = 0) { return self.split(size, dim); }
inline bool Tensor::equal(const Tensor& other) const { return KEVIN_FIND("equal").operator()<bool>({}, *this, other); }
inline bool equal(const Tensor& a, const Tensor& b) { return a.equal(b); }
inline bool Tensor::requires_grad() const {
  python::check_lock();
  python::Owned self(python::wrap(*this));
  python::Owned value(python::checked(PyObject_GetAttrString(self.get(), "requires_grad")));
  return PyObject_IsTrue(value.get()) == 1;
}

inline Tensor cat(TensorList tensors, int64_t dim = 0) { return KEVIN_FIND("cat")({}, tensors, dim); }
inline Tensor stack(TensorList tensors, int64_t dim = 0) { return KEVIN_FIND("stack")({}, tensors, dim); }
inline Tensor silu(const Tensor& self) { return KEVIN_FIND("silu")({}, self); }
inline Tensor softplus(const Tensor& self, const Scalar& beta = 1, const Scalar& threshold = 20) { return KEVIN_FIND("softplus")({}, self, beta, threshold); }
inline Tensor elu(const Tensor& self, const Scalar& alpha = 1) { return KEVIN_FIND("elu")({}, self, alpha); }
inline Tensor leaky_relu(const Tensor& self, const Scalar& slope = 0.01) { return KEVIN_FIND("leaky_relu")({}, self, slope); }
inline Tensor hardtanh(const Tensor& self, const Scalar& low = -1, const Scalar& high = 1) { return KEVIN_FIND("hardtanh")({}, self, low, high); }
inline Tensor hardsigmoid(const Tensor& self) { return KEVIN_FIND("hardsigmoid")({}, self); }
inline Tensor hardswish(const Tensor& self) { return KEVIN_FIND("hardswish")({}, self); }
inline Tensor gelu(const Tensor& self, const std::string& approximate = "none") {
  return KEVIN_FIND("gelu")({keyword("approximate", approximate)}, self);
}
inline Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = nullopt) { return KEVIN_FIND("linear")({}, input, weight, bias); }
inline Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1) {
  return KEVIN_FIND("addmm")({keyword("beta", beta), keyword("alpha", alpha)}, self, a, b);
}
inline Tensor& mm_out(Tensor& out, const Tensor& a, const Tensor& b) { KEVIN_FIND("mm")({keyword("out", out)}, a, b); return out; }
inline Tensor& matmul_out(Tensor& out, const Tensor& a, const Tensor& b) { KEVIN_FIND("matmul")({keyword("out", out)}, a, b); return out; }
inline Tensor layer_norm(const Tensor& input, IntArrayRef shape, const std::optional<Tensor>& weight = nullopt, const std::optional<Tensor>& bias = nullopt, double eps = 1e-5) {
  return KEVIN_FIND("layer_norm")({}, input, shape, weight, bias, eps);
}
inline Tensor group_norm(const Tensor& input, int64_t groups, const std::optional<Tensor>& weight = nullopt, const std::optional<Tensor>& bias = nullopt, double eps = 1e-5) {
  return KEVIN_FIND("group_norm")({}, input, groups, weight, bias, eps);
}
#define KEVIN_X(rank, name)                                                                                             \
  inline Tensor name(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = nullopt,            \
                     IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef dilation = 1, int64_t groups = 1) {   \
    return KEVIN_FIND(#name)({}, input, weight, bias, stride, padding, dilation, groups);                               \
  }                                                                                                                     \
  inline Tensor conv_transpose##rank(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = nullopt, \
                     IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef output_padding = 0,                   \
                     int64_t groups = 1, IntArrayRef dilation = 1) {                                                    \
    return KEVIN_FIND("conv_transpose" #rank)({}, input, weight, bias, stride, padding, output_padding, groups, dilation); \
  }
KEVIN_X(1d, conv1d) KEVIN_X(2d, conv2d) KEVIN_X(3d, conv3d)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                                   \
  inline Tensor name(const Tensor& input, IntArrayRef kernel, IntArrayRef stride = {}, IntArrayRef padding = 0,         \
                     IntArrayRef dilation = 1, bool ceil_mode = false) {                                                \
    return KEVIN_FIND(#name)({}, input, kernel, stride, padding, dilation, ceil_mode);                                  \
  }
KEVIN_X(max_pool1d) KEVIN_X(max_pool2d) KEVIN_X(max_pool3d)
#undef KEVIN_X

#define KEVIN_X(name)                                                                                             \
  inline Tensor name(IntArrayRef sizes, const TensorOptions& o = {}) {                                            \
    return KEVIN_FIND(#name)({keyword("dtype", o.dtype_opt()), keyword("device", o.device_opt())}, sizes);        \
  }                                                                                                               \
  inline Tensor name##_like(const Tensor& self, const TensorOptions& o = {}) {                                    \
    return KEVIN_FIND(#name "_like")({keyword("dtype", o.dtype_opt()), keyword("device", o.device_opt())}, self); \
  }
KEVIN_X(rand) KEVIN_X(randn)
#undef KEVIN_X
inline Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& o = {}) {
  return KEVIN_FIND("arange")({keyword("dtype", o.dtype_opt()), keyword("device", o.device_opt())}, start, end, step);
}
inline Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& o = {}) { return arange(start, end, 1, o); }
inline Tensor arange(const Scalar& end, const TensorOptions& o = {}) { return arange(0, end, 1, o); }
inline ScalarType promote_types(ScalarType a, ScalarType b) {
  return python::Operator{python::operator_named("promote_types")}.operator()<ScalarType>({}, a, b);
}
}  // namespace kevin_torch
