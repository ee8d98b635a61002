// The torch operators that generated code calls around its kernels; defined in support/operators.cpp. What is
// not here makes the build fall back to torch's own headers.
#pragma once
#include <kevin/factories.h>

namespace kevin_torch {
#define KEVIN_X(name) \
  Tensor name(const Tensor& self);
KEVIN_UNARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self);
KEVIN_X(isnan) KEVIN_X(isinf) KEVIN_X(isfinite) KEVIN_X(logical_not)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, const Tensor& other); \
  Tensor name(const Tensor& self, const Scalar& other);
KEVIN_BINARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, const Tensor& other, const Scalar& alpha = 1); \
  Tensor name(const Tensor& self, const Scalar& other, const Scalar& alpha = 1);
KEVIN_ALPHA_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, const Tensor& other);
KEVIN_TENSOR_OPERATORS(KEVIN_X)
#undef KEVIN_X
Tensor pow(const Tensor& self, const Scalar& exponent);
Tensor pow(const Tensor& self, const Tensor& exponent);
#define KEVIN_X(op, name) \
  Tensor operator op(const Tensor& a, const Tensor& b); \
  Tensor operator op(const Tensor& a, const Scalar& b);
KEVIN_X(+, add) KEVIN_X(-, sub) KEVIN_X(*, mul) KEVIN_X(/, div)
#undef KEVIN_X
Tensor operator+(const Scalar& a, const Tensor& b);
Tensor operator*(const Scalar& a, const Tensor& b);
Tensor operator-(const Scalar& a, const Tensor& b);
Tensor operator/(const Scalar& a, const Tensor& b);
#define KEVIN_X(op, name) \
  Tensor operator op(const Tensor& a, const Tensor& b); \
  Tensor operator op(const Tensor& a, const Scalar& b);
KEVIN_X(==, eq) KEVIN_X(!=, ne) KEVIN_X(<, lt) KEVIN_X(<=, le) KEVIN_X(>, gt) KEVIN_X(>=, ge)
#undef KEVIN_X
// --- reductions ------------------------------------------------------------------------------------
using OptionalType = std::optional<ScalarType>;
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, OptionalType dtype = nullopt); \
  Tensor name(const Tensor& self, IntArrayRef dim, bool keepdim = false, OptionalType dtype = nullopt);
KEVIN_X(sum) KEVIN_X(mean)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, IntArrayRef dim = {}, bool keepdim = false);
KEVIN_X(amax) KEVIN_X(amin) KEVIN_X(logsumexp)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self); \
  Tensor name(const Tensor& self, const Tensor& other); \
  std::tuple<Tensor, Tensor> name(const Tensor& self, int64_t dim, bool keepdim = false);
KEVIN_X(max) KEVIN_X(min)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, std::optional<int64_t> dim = nullopt, bool keepdim = false);
KEVIN_X(argmax) KEVIN_X(argmin)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, IntArrayRef dim, bool unbiased = true, bool keepdim = false);
KEVIN_X(var) KEVIN_X(std)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& self, int64_t dim, OptionalType dtype = nullopt);
KEVIN_X(softmax) KEVIN_X(log_softmax) KEVIN_X(cumsum) KEVIN_X(cumprod)
#undef KEVIN_X
Tensor prod(const Tensor& self, OptionalType dtype = nullopt);
Tensor norm(const Tensor& self);
// --- others ----------------------------------------------------------------------------------------
using OptionalScalar = std::optional<Scalar>;
Tensor clamp(const Tensor& self, const OptionalScalar& min = nullopt, const OptionalScalar& max = nullopt);
Tensor clamp_min(const Tensor& self, const Scalar& min);
Tensor clamp_max(const Tensor& self, const Scalar& max);
Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index);
Tensor gather(const Tensor& self, int64_t dim, const Tensor& index);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor flip(const Tensor& self, IntArrayRef dims);
Tensor triu(const Tensor& self, int64_t diagonal = 0);
Tensor tril(const Tensor& self, int64_t diagonal = 0);
using Tensors = std::vector<Tensor>;
Tensors chunk(const Tensor& self, int64_t chunks, int64_t dim = 0);
Tensors split(const Tensor& self, int64_t size, int64_t dim = 0);
bool equal(const Tensor& a, const Tensor& b);
Tensor cat(TensorList tensors, int64_t dim = 0);
Tensor stack(TensorList tensors, int64_t dim = 0);
Tensor silu(const Tensor& self);
Tensor softplus(const Tensor& self, const Scalar& beta = 1, const Scalar& threshold = 20);
Tensor elu(const Tensor& self, const Scalar& alpha = 1);
Tensor leaky_relu(const Tensor& self, const Scalar& slope = 0.01);
Tensor hardtanh(const Tensor& self, const Scalar& low = -1, const Scalar& high = 1);
Tensor hardsigmoid(const Tensor& self);
Tensor hardswish(const Tensor& self);
Tensor gelu(const Tensor& self, const char* approximate = "none");
Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = nullopt);
Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1);
Tensor& mm_out(Tensor& out, const Tensor& a, const Tensor& b);
Tensor& matmul_out(Tensor& out, const Tensor& a, const Tensor& b);
Tensor layer_norm(const Tensor& input, IntArrayRef shape, const std::optional<Tensor>& weight = nullopt, const std::optional<Tensor>& bias = nullopt, double eps = 1e-5);
Tensor group_norm(const Tensor& input, int64_t groups, const std::optional<Tensor>& weight = nullopt, const std::optional<Tensor>& bias = nullopt, double eps = 1e-5);
#define KEVIN_X(rank, name) \
  Tensor name(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = nullopt, IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef dilation = 1, int64_t groups = 1); \
  Tensor conv_transpose##rank(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias = nullopt, IntArrayRef stride = 1, IntArrayRef padding = 0, IntArrayRef output_padding = 0, int64_t groups = 1, IntArrayRef dilation = 1);
KEVIN_X(1d, conv1d) KEVIN_X(2d, conv2d) KEVIN_X(3d, conv3d)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(const Tensor& input, IntArrayRef kernel, IntArrayRef stride = {}, IntArrayRef padding = 0, IntArrayRef dilation = 1, bool ceil_mode = false);
KEVIN_X(max_pool1d) KEVIN_X(max_pool2d) KEVIN_X(max_pool3d)
#undef KEVIN_X
#define KEVIN_X(name) \
  Tensor name(IntArrayRef sizes, const TensorOptions& o = {}); \
  Tensor name##_like(const Tensor& self, const TensorOptions& o = {});
KEVIN_X(rand) KEVIN_X(randn)
#undef KEVIN_X
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& o = {});
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& o = {});
Tensor arange(const Scalar& end, const TensorOptions& o = {});
ScalarType promote_types(ScalarType a, ScalarType b);
}  // namespace kevin_torch
