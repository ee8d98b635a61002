// The bodies of kevin/operators.h. Compiled once for a machine (see support.py).
#include <kevin/errors.h>
#include <kevin/operators.h>
#include <kevin/python.h>

namespace kevin_torch {
namespace python {
namespace {

template <class T> T value_of(PyObject* object) {
  auto value = From<T>::get(object);
  if (!value) fail_with(Fault::Error, "torch returned something else than ", From<T>::name);
  return std::move(*value);
}

// --- calls of torch's operators --------------------------------------------------------------------
// Through Python, not through aoti_torch_call_dispatcher: the stable call passes no Scalar (so no
// `alpha`, no `x * 2`), looks the operator up by name at every call and, before torch 2.13, loses the
// message of an error. The way here costs about the same and has none of that.

PyObject* operator_named(const char* name) {
  for (const char* module : {"torch._C._VariableFunctions", "torch._C._nn", "torch.ops.aten"}) {
    const std::string path = module;
    Owned owner(checked(PyImport_ImportModule("torch")));
    for (size_t start = 6; start < path.size() && owner;) {
      const size_t dot = path.find('.', start);
      owner = Owned(PyObject_GetAttrString(owner.get(), path.substr(start, dot - start).c_str()));
      start = dot == std::string::npos ? path.size() : dot + 1;
    }
    PyObject* const function = owner ? PyObject_GetAttrString(owner.get(), name) : nullptr;
    if (function) return function;
    PyErr_Clear();
  }
  fail_with(Fault::Error, "torch has no operator ", name);
}
struct Keyword {  // a new reference, or nothing
  const char* name;
  PyObject* value;
};
template <class T> Keyword keyword(const char* name, const std::optional<T>& value) {
  return {name, value ? wrap(*value) : nullptr};
}
template <class T> Keyword keyword(const char* name, const T& value) { return {name, wrap(value)}; }

struct Operator {
  PyObject* function;
  template <class R = Tensor, class... A>
  R operator()(std::initializer_list<Keyword> keywords, const A&... arguments) const {
    Owned positional(checked(PyTuple_New(sizeof...(A))));
    ptrdiff_t i = 0;
    (PyTuple_SetItem(positional.get(), i++, wrap(arguments)), ...);
    Owned named(checked(PyDict_New()));
    for (const Keyword& k : keywords) {
      Owned value(k.value);
      if (value) PyDict_SetItemString(named.get(), k.name, value.get());
    }
    Owned result(checked(PyObject_Call(function, positional.get(), named.get())));
    return value_of<R>(result.get());
  }
};
void check_lock() {
  if (!PyGILState_Check())
    fail(Fault::Error, "a torch operator was called from another thread; only data pointers may be used there");
}
}  // namespace
}  // namespace python

// The operator of that name, looked up once at each place that uses it.
#define KEVIN_FIND(name)                                                                       \
  (::kevin_torch::python::check_lock(), [] {                                                   \
    static PyObject* const function = ::kevin_torch::python::operator_named(name);             \
    return ::kevin_torch::python::Operator{function};                                          \
  }())

using python::keyword;

#define KEVIN_X(name)                                                                             \
  Tensor Tensor::name() const { return KEVIN_FIND(#name)({}, *this); }                     \
  Tensor& Tensor::name##_() { KEVIN_FIND(#name "_")({}, *this); return *this; }            \
  Tensor name(const Tensor& self) { return self.name(); }
KEVIN_UNARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name)                                                                             \
  Tensor Tensor::name() const { return KEVIN_FIND(#name)({}, *this); }                     \
  Tensor name(const Tensor& self) { return self.name(); }
KEVIN_X(isnan) KEVIN_X(isinf) KEVIN_X(isfinite) KEVIN_X(logical_not)
#undef KEVIN_X

#define KEVIN_X(name)                                                                                             \
  Tensor Tensor::name(const Tensor& other) const { return KEVIN_FIND(#name)({}, *this, other); }           \
  Tensor Tensor::name(const Scalar& other) const { return KEVIN_FIND(#name)({}, *this, other); }           \
  Tensor& Tensor::name##_(const Tensor& other) { KEVIN_FIND(#name "_")({}, *this, other); return *this; }  \
  Tensor& Tensor::name##_(const Scalar& other) { KEVIN_FIND(#name "_")({}, *this, other); return *this; }  \
  Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }                        \
  Tensor name(const Tensor& self, const Scalar& other) { return self.name(other); }
KEVIN_BINARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                             \
  Tensor Tensor::name(const Tensor& other, const Scalar& alpha) const {                                    \
    return KEVIN_FIND(#name)({keyword("alpha", alpha)}, *this, other);                                            \
  }                                                                                                               \
  Tensor Tensor::name(const Scalar& other, const Scalar& alpha) const {                                    \
    return KEVIN_FIND(#name)({keyword("alpha", alpha)}, *this, other);                                            \
  }                                                                                                               \
  Tensor& Tensor::name##_(const Tensor& other, const Scalar& alpha) {                                      \
    KEVIN_FIND(#name "_")({keyword("alpha", alpha)}, *this, other);                                               \
    return *this;                                                                                                 \
  }                                                                                                               \
  Tensor& Tensor::name##_(const Scalar& other, const Scalar& alpha) {                                      \
    KEVIN_FIND(#name "_")({keyword("alpha", alpha)}, *this, other);                                               \
    return *this;                                                                                                 \
  }                                                                                                               \
  Tensor name(const Tensor& self, const Tensor& other, const Scalar& alpha) { return self.name(other, alpha); } \
  Tensor name(const Tensor& self, const Scalar& other, const Scalar& alpha) { return self.name(other, alpha); }
KEVIN_ALPHA_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                    \
  Tensor Tensor::name(const Tensor& other) const { return KEVIN_FIND(#name)({}, *this, other); }  \
  Tensor name(const Tensor& self, const Tensor& other) { return self.name(other); }
KEVIN_TENSOR_OPERATORS(KEVIN_X)
#undef KEVIN_X

Tensor Tensor::pow(const Scalar& exponent) const { return KEVIN_FIND("pow")({}, *this, exponent); }
Tensor Tensor::pow(const Tensor& exponent) const { return KEVIN_FIND("pow")({}, *this, exponent); }
Tensor pow(const Tensor& self, const Scalar& exponent) { return self.pow(exponent); }
Tensor pow(const Tensor& self, const Tensor& exponent) { return self.pow(exponent); }

Tensor Tensor::operator-() const { return neg(); }
#define KEVIN_X(op, name)                                                                                       \
  Tensor& Tensor::operator op##=(const Tensor& other) { return name##_(other); }                         \
  Tensor& Tensor::operator op##=(const Scalar& other) { return name##_(other); }                         \
  Tensor operator op(const Tensor& a, const Tensor& b) { return a.name(b); }                             \
  Tensor operator op(const Tensor& a, const Scalar& b) { return a.name(b); }
KEVIN_X(+, add) KEVIN_X(-, sub) KEVIN_X(*, mul) KEVIN_X(/, div)
#undef KEVIN_X
Tensor operator+(const Scalar& a, const Tensor& b) { return b.add(a); }
Tensor operator*(const Scalar& a, const Tensor& b) { return b.mul(a); }
Tensor operator-(const Scalar& a, const Tensor& b) { return KEVIN_FIND("rsub")({}, b, a); }
Tensor operator/(const Scalar& a, const Tensor& b) { return b.reciprocal().mul(a); }
#define KEVIN_X(op, name)                                                              \
  Tensor operator op(const Tensor& a, const Tensor& b) { return a.name(b); }    \
  Tensor operator op(const Tensor& a, const Scalar& b) { return a.name(b); }
KEVIN_X(==, eq) KEVIN_X(!=, ne) KEVIN_X(<, lt) KEVIN_X(<=, le) KEVIN_X(>, gt) KEVIN_X(>=, ge)
#undef KEVIN_X

// --- reductions ------------------------------------------------------------------------------------

#define KEVIN_X(name)                                                                                            \
  Tensor Tensor::name(OptionalType dtype) const { return KEVIN_FIND(#name)({keyword("dtype", dtype)}, *this); } \
  Tensor Tensor::name(IntArrayRef dim, bool keepdim, OptionalType dtype) const {                          \
    return KEVIN_FIND(#name)({keyword("dtype", dtype)}, *this, dim, keepdim);                                    \
  }                                                                                                              \
  Tensor name(const Tensor& self, OptionalType dtype) { return self.name(dtype); }              \
  Tensor name(const Tensor& self, IntArrayRef dim, bool keepdim, OptionalType dtype) {  \
    return self.name(dim, keepdim, dtype);                                                                       \
  }
KEVIN_X(sum) KEVIN_X(mean)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  Tensor Tensor::name(IntArrayRef dim, bool keepdim) const { return KEVIN_FIND(#name)({}, *this, dim, keepdim); } \
  Tensor name(const Tensor& self, IntArrayRef dim, bool keepdim) { return self.name(dim, keepdim); }
KEVIN_X(amax) KEVIN_X(amin) KEVIN_X(logsumexp)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  Tensor Tensor::name() const { return KEVIN_FIND(#name)({}, *this); }                                    \
  std::tuple<Tensor, Tensor> Tensor::name(int64_t dim, bool keepdim) const {                              \
    return KEVIN_FIND(#name).operator()<std::tuple<Tensor, Tensor>>({}, *this, dim, keepdim);                    \
  }                                                                                                              \
  Tensor name(const Tensor& self) { return self.name(); }                                                 \
  Tensor name(const Tensor& self, const Tensor& other) { return KEVIN_FIND(#name)({}, self, other); }     \
  std::tuple<Tensor, Tensor> name(const Tensor& self, int64_t dim, bool keepdim) {                \
    return self.name(dim, keepdim);                                                                              \
  }
KEVIN_X(max) KEVIN_X(min)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  Tensor Tensor::name(std::optional<int64_t> dim, bool keepdim) const {                                   \
    return KEVIN_FIND(#name)({}, *this, dim, keepdim);                                                           \
  }                                                                                                              \
  Tensor name(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {           \
    return self.name(dim, keepdim);                                                                              \
  }
KEVIN_X(argmax) KEVIN_X(argmin)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  Tensor Tensor::name(IntArrayRef dim, bool unbiased, bool keepdim) const {                               \
    return KEVIN_FIND(#name)({}, *this, dim, unbiased, keepdim);                                                 \
  }                                                                                                              \
  Tensor name(const Tensor& self, IntArrayRef dim, bool unbiased, bool keepdim) {          \
    return self.name(dim, unbiased, keepdim);                                                                    \
  }
KEVIN_X(var) KEVIN_X(std)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                            \
  Tensor Tensor::name(int64_t dim, OptionalType dtype) const {                                            \
    return KEVIN_FIND(#name)({keyword("dtype", dtype)}, *this, dim);                                             \
  }                                                                                                              \
  Tensor name(const Tensor& self, int64_t dim, OptionalType dtype) { return self.name(dim, dtype); }
KEVIN_X(softmax) KEVIN_X(log_softmax) KEVIN_X(cumsum) KEVIN_X(cumprod)
#undef KEVIN_X
Tensor Tensor::prod(OptionalType dtype) const { return KEVIN_FIND("prod")({keyword("dtype", dtype)}, *this); }
Tensor prod(const Tensor& self, OptionalType dtype) { return self.prod(dtype); }
Tensor Tensor::norm() const { return KEVIN_FIND("norm")({}, *this); }
Tensor norm(const Tensor& self) { return self.norm(); }

// --- others ----------------------------------------------------------------------------------------

Tensor Tensor::clamp(const OptionalScalar& min, const OptionalScalar& max) const { return KEVIN_FIND("clamp")({}, *this, min, max); }
Tensor& Tensor::clamp_(const OptionalScalar& min, const OptionalScalar& max) { KEVIN_FIND("clamp_")({}, *this, min, max); return *this; }
Tensor Tensor::clamp_min(const Scalar& min) const { return KEVIN_FIND("clamp_min")({}, *this, min); }
Tensor Tensor::clamp_max(const Scalar& max) const { return KEVIN_FIND("clamp_max")({}, *this, max); }
Tensor clamp(const Tensor& self, const OptionalScalar& min, const OptionalScalar& max) { return self.clamp(min, max); }
Tensor clamp_min(const Tensor& self, const Scalar& min) { return self.clamp_min(min); }
Tensor clamp_max(const Tensor& self, const Scalar& max) { return self.clamp_max(max); }
Tensor Tensor::repeat(IntArrayRef repeats) const { return KEVIN_FIND("repeat")({}, *this, repeats); }
Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> dim) const { return KEVIN_FIND("repeat_interleave")({}, *this, repeats, dim); }
Tensor Tensor::index_select(int64_t dim, const Tensor& index) const { return KEVIN_FIND("index_select")({}, *this, dim, index); }
Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) { return self.index_select(dim, index); }
Tensor Tensor::gather(int64_t dim, const Tensor& index) const { return KEVIN_FIND("gather")({}, *this, dim, index); }
Tensor gather(const Tensor& self, int64_t dim, const Tensor& index) { return self.gather(dim, index); }
Tensor Tensor::masked_fill(const Tensor& mask, const Scalar& value) const { return KEVIN_FIND("masked_fill")({}, *this, mask, value); }
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return KEVIN_FIND("where")({}, condition, a, b); }
Tensor Tensor::where(const Tensor& condition, const Tensor& other) const { return kevin_torch::where(condition, *this, other); }
Tensor Tensor::flip(IntArrayRef dims) const { return KEVIN_FIND("flip")({}, *this, dims); }
Tensor flip(const Tensor& self, IntArrayRef dims) { return self.flip(dims); }
Tensor Tensor::triu(int64_t diagonal) const { return KEVIN_FIND("triu")({}, *this, diagonal); }
Tensor Tensor::tril(int64_t diagonal) const { return KEVIN_FIND("tril")({}, *this, diagonal); }
Tensor triu(const Tensor& self, int64_t diagonal) { return self.triu(diagonal); }
Tensor tril(const Tensor& self, int64_t diagonal) { return self.tril(diagonal); }
Tensors Tensor::chunk(int64_t chunks, int64_t dim) const { return KEVIN_FIND("chunk").operator()<Tensors>({}, *this, chunks, dim); }
Tensors Tensor::split(int64_t size, int64_t dim) const { return KEVIN_FIND("split").operator()<Tensors>({}, *this, size, dim); }
Tensors Tensor::unbind(int64_t dim) const { return KEVIN_FIND("unbind").operator()<Tensors>({}, *this, dim); }
Tensors chunk(const Tensor& self, int64_t chunks, int64_t dim) { return self.chunk(chunks, dim); }
Tensors split(const Tensor& self, int64_t size, int64_t dim) { return self.split(size, dim); }
bool Tensor::equal(const Tensor& other) const { return KEVIN_FIND("equal").operator()<bool>({}, *this, other); }
bool equal(const Tensor& a, const Tensor& b) { return a.equal(b); }
bool Tensor::requires_grad() const {
  python::check_lock();
  python::Owned self(python::wrap(*this));
  python::Owned value(python::checked(PyObject_GetAttrString(self.get(), "requires_grad")));
  return PyObject_IsTrue(value.get()) == 1;
}

Tensor cat(TensorList tensors, int64_t dim) { return KEVIN_FIND("cat")({}, tensors, dim); }
Tensor stack(TensorList tensors, int64_t dim) { return KEVIN_FIND("stack")({}, tensors, dim); }
Tensor silu(const Tensor& self) { return KEVIN_FIND("silu")({}, self); }
Tensor softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold) { return KEVIN_FIND("softplus")({}, self, beta, threshold); }
Tensor elu(const Tensor& self, const Scalar& alpha) { return KEVIN_FIND("elu")({}, self, alpha); }
Tensor leaky_relu(const Tensor& self, const Scalar& slope) { return KEVIN_FIND("leaky_relu")({}, self, slope); }
Tensor hardtanh(const Tensor& self, const Scalar& low, const Scalar& high) { return KEVIN_FIND("hardtanh")({}, self, low, high); }
Tensor hardsigmoid(const Tensor& self) { return KEVIN_FIND("hardsigmoid")({}, self); }
Tensor hardswish(const Tensor& self) { return KEVIN_FIND("hardswish")({}, self); }
Tensor gelu(const Tensor& self, const char* approximate) {
  return KEVIN_FIND("gelu")({keyword("approximate", approximate)}, self);
}
Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) { return KEVIN_FIND("linear")({}, input, weight, bias); }
Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return KEVIN_FIND("addmm")({keyword("beta", beta), keyword("alpha", alpha)}, self, a, b);
}
Tensor& mm_out(Tensor& out, const Tensor& a, const Tensor& b) { KEVIN_FIND("mm")({keyword("out", out)}, a, b); return out; }
Tensor& matmul_out(Tensor& out, const Tensor& a, const Tensor& b) { KEVIN_FIND("matmul")({keyword("out", out)}, a, b); return out; }
Tensor layer_norm(const Tensor& input, IntArrayRef shape, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps) {
  return KEVIN_FIND("layer_norm")({}, input, shape, weight, bias, eps);
}
Tensor group_norm(const Tensor& input, int64_t groups, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, double eps) {
  return KEVIN_FIND("group_norm")({}, input, groups, weight, bias, eps);
}
#define KEVIN_X(rank, name)                                                                                             \
  Tensor name(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,            \
                     IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, int64_t groups) {   \
    return KEVIN_FIND(#name)({}, input, weight, bias, stride, padding, dilation, groups);                               \
  }                                                                                                                     \
  Tensor conv_transpose##rank(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, \
                     IntArrayRef stride, IntArrayRef padding, IntArrayRef output_padding,                   \
                     int64_t groups, IntArrayRef dilation) {                                                    \
    return KEVIN_FIND("conv_transpose" #rank)({}, input, weight, bias, stride, padding, output_padding, groups, dilation); \
  }
KEVIN_X(1d, conv1d) KEVIN_X(2d, conv2d) KEVIN_X(3d, conv3d)
#undef KEVIN_X
#define KEVIN_X(name)                                                                                                   \
  Tensor name(const Tensor& input, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,         \
                     IntArrayRef dilation, bool ceil_mode) {                                                \
    return KEVIN_FIND(#name)({}, input, kernel, stride, padding, dilation, ceil_mode);                                  \
  }
KEVIN_X(max_pool1d) KEVIN_X(max_pool2d) KEVIN_X(max_pool3d)
#undef KEVIN_X

#define KEVIN_X(name)                                                                                             \
  Tensor name(IntArrayRef sizes, const TensorOptions& o) {                                            \
    return KEVIN_FIND(#name)({keyword("dtype", o.dtype_opt()), keyword("device", o.device_opt())}, sizes);        \
  }                                                                                                               \
  Tensor name##_like(const Tensor& self, const TensorOptions& o) {                                    \
    return KEVIN_FIND(#name "_like")({keyword("dtype", o.dtype_opt()), keyword("device", o.device_opt())}, self); \
  }
KEVIN_X(rand) KEVIN_X(randn)
#undef KEVIN_X
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& o) {
  return KEVIN_FIND("arange")({keyword("dtype", o.dtype_opt()), keyword("device", o.device_opt())}, start, end, step);
}
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& o) { return arange(start, end, 1, o); }
Tensor arange(const Scalar& end, const TensorOptions& o) { return arange(0, end, 1, o); }
ScalarType promote_types(ScalarType a, ScalarType b) {
  return python::Operator{python::operator_named("promote_types")}.operator()<ScalarType>({}, a, b);
}
}  // namespace kevin_torch
