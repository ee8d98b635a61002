// Tensor's methods that are torch operators; defined in operators.h. Included inside the class.
#define KEVIN_UNARY_OPERATORS(X)                                                                          \
  X(abs) X(acos) X(asin) X(atan) X(ceil) X(cos) X(cosh) X(erf) X(erfc) X(exp) X(expm1) X(floor) X(log)    \
  X(log10) X(log1p) X(log2) X(neg) X(reciprocal) X(relu) X(round) X(rsqrt) X(sigmoid) X(sin) X(sinh)      \
  X(sqrt) X(square) X(tan) X(tanh) X(trunc)
#define KEVIN_X(name) Tensor name() const; Tensor& name##_();
KEVIN_UNARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
Tensor isnan() const;
Tensor isinf() const;
Tensor isfinite() const;
Tensor logical_not() const;

// With a tensor or a number on the right.
#define KEVIN_BINARY_OPERATORS(X) X(mul) X(div) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)
#define KEVIN_X(name)                          \
  Tensor name(const Tensor& other) const;      \
  Tensor name(const Scalar& other) const;      \
  Tensor& name##_(const Tensor& other);        \
  Tensor& name##_(const Scalar& other);
KEVIN_BINARY_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_ALPHA_OPERATORS(X) X(add) X(sub)
#define KEVIN_X(name)                                                    \
  Tensor name(const Tensor& other, const Scalar& alpha = 1) const;       \
  Tensor name(const Scalar& other, const Scalar& alpha = 1) const;       \
  Tensor& name##_(const Tensor& other, const Scalar& alpha = 1);         \
  Tensor& name##_(const Scalar& other, const Scalar& alpha = 1);
KEVIN_ALPHA_OPERATORS(KEVIN_X)
#undef KEVIN_X
#define KEVIN_TENSOR_OPERATORS(X) X(matmul) X(mm) X(bmm) X(mv) X(dot) X(maximum) X(minimum)
#define KEVIN_X(name) Tensor name(const Tensor& other) const;
KEVIN_TENSOR_OPERATORS(KEVIN_X)
#undef KEVIN_X
Tensor pow(const Scalar& exponent) const;
Tensor pow(const Tensor& exponent) const;
Tensor operator-() const;
Tensor& operator+=(const Tensor& other);
Tensor& operator+=(const Scalar& other);
Tensor& operator-=(const Tensor& other);
Tensor& operator-=(const Scalar& other);
Tensor& operator*=(const Tensor& other);
Tensor& operator*=(const Scalar& other);
Tensor& operator/=(const Tensor& other);
Tensor& operator/=(const Scalar& other);

Tensor sum(std::optional<ScalarType> dtype = nullopt) const;
Tensor sum(IntArrayRef dim, bool keepdim = false, std::optional<ScalarType> dtype = nullopt) const;
Tensor mean(std::optional<ScalarType> dtype = nullopt) const;
Tensor mean(IntArrayRef dim, bool keepdim = false, std::optional<ScalarType> dtype = nullopt) const;
Tensor amax(IntArrayRef dim = {}, bool keepdim = false) const;
Tensor amin(IntArrayRef dim = {}, bool keepdim = false) const;
Tensor max() const;
Tensor min() const;
std::tuple<Tensor, Tensor> max(int64_t dim, bool keepdim = false) const;
std::tuple<Tensor, Tensor> min(int64_t dim, bool keepdim = false) const;
Tensor argmax(std::optional<int64_t> dim = nullopt, bool keepdim = false) const;
Tensor argmin(std::optional<int64_t> dim = nullopt, bool keepdim = false) const;
Tensor var(IntArrayRef dim, bool unbiased = true, bool keepdim = false) const;
Tensor std(IntArrayRef dim, bool unbiased = true, bool keepdim = false) const;
Tensor prod(std::optional<ScalarType> dtype = nullopt) const;
Tensor norm() const;
Tensor logsumexp(IntArrayRef dim, bool keepdim = false) const;
Tensor softmax(int64_t dim, std::optional<ScalarType> dtype = nullopt) const;
Tensor log_softmax(int64_t dim, std::optional<ScalarType> dtype = nullopt) const;
Tensor cumsum(int64_t dim, std::optional<ScalarType> dtype = nullopt) const;
Tensor cumprod(int64_t dim, std::optional<ScalarType> dtype = nullopt) const;
Tensor clamp(const std::optional<Scalar>& min = nullopt, const std::optional<Scalar>& max = nullopt) const;
Tensor clamp_min(const Scalar& min) const;
Tensor clamp_max(const Scalar& max) const;
Tensor& clamp_(const std::optional<Scalar>& min = nullopt, const std::optional<Scalar>& max = nullopt);
Tensor repeat(IntArrayRef repeats) const;
Tensor repeat_interleave(int64_t repeats, std::optional<int64_t> dim = nullopt) const;
Tensor index_select(int64_t dim, const Tensor& index) const;
Tensor gather(int64_t dim, const Tensor& index) const;
Tensor masked_fill(const Tensor& mask, const Scalar& value) const;
Tensor where(const Tensor& condition, const Tensor& other) const;
Tensor flip(IntArrayRef dims) const;
Tensor triu(int64_t diagonal = 0) const;
Tensor tril(int64_t diagonal = 0) const;
std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0) const;
std::vector<Tensor> split(int64_t size, int64_t dim = 0) const;
std::vector<Tensor> unbind(int64_t dim = 0) const;
bool equal(const Tensor& other) const;
bool requires_grad() const;
