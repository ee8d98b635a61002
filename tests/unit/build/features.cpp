// Everything that the thin headers promise, one small function each; `test_tensor.py` compares with torch.
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <stdexcept>

namespace py = pybind11;

// --- properties
std::vector<int64_t> shape_of(torch::Tensor x) { return x.sizes().vec(); }
std::tuple<int64_t, int64_t, int64_t, bool, bool> numbers_of(const at::Tensor& x) {
  return std::make_tuple(x.dim(), x.numel(), x.element_size(), x.is_contiguous(), x.is_cuda());
}
std::vector<int64_t> strides_of(const torch::Tensor& x) {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < x.dim(); ++d) out.push_back(x.stride(d));
  return out;
}
torch::ScalarType type_of(torch::Tensor x) { return x.dtype() == torch::kFloat32 ? torch::kFloat : x.scalar_type(); }
std::string describe(torch::Tensor x) { return c10::str(x.dtype(), " ", x.device(), " ", x.sizes(), " ", 2.5, " ", true); }
int64_t last_size(torch::Tensor x) { return x.size(-1); }

// --- views
torch::Tensor view(torch::Tensor x, std::vector<int64_t> shape) { return x.view(shape); }
torch::Tensor reshape(torch::Tensor x, std::vector<int64_t> shape) { return x.reshape(shape); }
torch::Tensor flatten(torch::Tensor x, int64_t a, int64_t b) { return x.flatten(a, b); }
torch::Tensor squeeze(torch::Tensor x) { return x.squeeze(); }
torch::Tensor squeeze_at(torch::Tensor x, int64_t d) { return x.squeeze(d); }
torch::Tensor unsqueeze(torch::Tensor x, int64_t d) { return x.unsqueeze(d); }
torch::Tensor transpose(torch::Tensor x, int64_t a, int64_t b) { return x.transpose(a, b); }
torch::Tensor transposed(torch::Tensor x) { return x.t(); }
torch::Tensor permute(torch::Tensor x, std::vector<int64_t> order) { return x.permute(order); }
torch::Tensor expand(torch::Tensor x, std::vector<int64_t> shape) { return x.expand(shape); }
torch::Tensor select_first(torch::Tensor x, int64_t i) { return x[i]; }
torch::Tensor narrow(torch::Tensor x, int64_t d, int64_t from, int64_t n) { return x.narrow(d, from, n); }
torch::Tensor slice(torch::Tensor x, int64_t d, int64_t from, int64_t to, int64_t step) { return x.slice(d, from, to, step); }
torch::Tensor contiguous(torch::Tensor x) { return x.contiguous(); }
torch::Tensor clone(torch::Tensor x) { return x.clone(); }
torch::Tensor to_type(torch::Tensor x, torch::ScalarType type) { return x.to(type); }
torch::Tensor same(torch::Tensor x) { return x; }

// --- factories
torch::Tensor make(const std::string& kind, std::vector<int64_t> shape, torch::ScalarType type) {
  auto options = torch::TensorOptions().dtype(type).device(torch::kCPU);
  if (kind == "zeros") return torch::zeros(shape, options);
  if (kind == "ones") return torch::ones(shape, options);
  if (kind == "full") return torch::full(shape, 3, options);
  if (kind == "arange") return torch::arange(6, options);
  TORCH_CHECK_VALUE(kind == "empty", "no such kind: ", kind);
  return torch::empty(shape, torch::dtype(type)).zero_();
}
std::vector<torch::Tensor> like(torch::Tensor x) {
  return {torch::zeros_like(x), torch::ones_like(x), torch::full_like(x, 2.5), torch::empty_like(x).fill_(1), torch::empty({2, 3}, x.options()).zero_()};
}
torch::Tensor listed() { return torch::tensor({1.5f, 2.5f, 3.5f}); }

// --- memory
torch::Tensor by_accessor(torch::Tensor x) {
  auto out = torch::zeros({x.size(1), x.size(0)}, x.options());
  auto a = x.accessor<float, 2>();
  auto b = out.packed_accessor32<float, 2, torch::RestrictPtrTraits>();
  for (int64_t i = 0; i < x.size(0); ++i)
    for (int64_t j = 0; j < x.size(1); ++j) b[j][i] = a[i][j];
  return out;
}
torch::Tensor doubled(const torch::Tensor& x) {
  torch::Tensor out = torch::empty_like(x);
  AT_DISPATCH_ALL_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "doubled", [&] {
    const scalar_t* in = x.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); ++i) to[i] = in[i] + in[i];
  });
  return out;
}
torch::Tensor floats_only(torch::Tensor x) {
  auto out = x.clone();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "floats_only", ([&] { out.data_ptr<scalar_t>()[0] = scalar_t(7); }));
  return out;
}
float first_float(torch::Tensor x) { return x.data_ptr<float>()[0]; }
double item(torch::Tensor x) { return x.item<double>(); }
torch::Tensor half_round_trip(torch::Tensor x) {
  auto out = torch::empty(x.sizes(), x.options().dtype(torch::kHalf));
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<at::Half>()[i] = static_cast<at::Half>(x.data_ptr<float>()[i]);
  return out;
}
torch::Tensor bfloat16_round_trip(torch::Tensor x) {
  auto out = torch::empty(x.sizes(), x.options().dtype(torch::kBFloat16));
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<c10::BFloat16>()[i] = x.data_ptr<float>()[i];
  return out;
}
torch::Tensor half_values(torch::Tensor x) {
  auto out = torch::empty(x.sizes(), x.options().dtype(torch::kFloat));
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = x.data_ptr<at::Half>()[i];
  return out;
}
void fill_in_place(torch::Tensor x, double value) { x.fill_(value); }
void copy_in_place(torch::Tensor x, torch::Tensor y) { x.copy_(y); }

// --- operators
std::vector<torch::Tensor> operators(torch::Tensor x, torch::Tensor y) {
  return {x + y, x - y, x * 2, 1.0 - x, x / y, x.add(y, 3), torch::matmul(x, y.t()), torch::relu(x), x.exp().sum(),
          x.sum(1), torch::sum(x, {0, 1}), x.mean({-1}, true), torch::softmax(x, -1), x.clamp(-0.5, 0.5),
          std::get<0>(x.max(1)), torch::cat({x, y}, 0), torch::where(x > 0, x, y), torch::gelu(x), x.pow(2),
          x.sum(torch::kFloat64), torch::layer_norm(x, {x.size(1)}), -x};
}
torch::Tensor in_place(torch::Tensor x, torch::Tensor y) {
  x += y;
  x *= 2;
  x.sub_(y, 0.5);
  return x.relu_();
}
torch::Tensor bad_matmul(torch::Tensor x) { return torch::matmul(x, x); }

// --- binding
std::string optional_of(c10::optional<torch::Tensor> x, std::optional<double> s) {
  return c10::str(x.has_value() ? "tensor" : "none", " ", s.value_or(-1));
}
int64_t total(std::vector<torch::Tensor> xs) {
  int64_t n = 0;
  for (const auto& x : xs) n += x.numel();
  return n;
}
std::string scalars(int a, size_t b, float c, bool d, const std::string& e) { return c10::str(a, " ", b, " ", c, " ", d, " ", e); }
std::tuple<torch::Tensor, int64_t> pair_of(torch::Tensor x) { return {x * 2, x.numel()}; }
void raise(const std::string& kind) {
  if (kind == "check") TORCH_CHECK(false, "bad value ", 3);
  if (kind == "invalid") throw std::invalid_argument("invalid");
  if (kind == "range") throw std::out_of_range("out of range");
  if (kind == "runtime") throw std::runtime_error("runtime");
  if (kind == "int") throw 5;
  AT_ERROR("unknown kind ", kind);
}
torch::Tensor parallel_sum(torch::Tensor x) {
  auto out = torch::zeros({x.size(0)}, x.options());
  float* to = out.data_ptr<float>();
  at::parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      TORCH_CHECK(x.data_ptr<float>()[i * x.size(1)] >= 0, "negative row");
      for (int64_t j = 0; j < x.size(1); ++j) to[i] += x.data_ptr<float>()[i * x.size(1) + j];
    }
  });
  return out;
}
torch::Tensor overloaded(torch::Tensor x) { return x; }
int64_t overloaded(int64_t x) { return -x; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "features";
#define DEF(name) m.def(#name, &name)
  DEF(shape_of); DEF(numbers_of); DEF(strides_of); DEF(type_of); DEF(describe); DEF(last_size);
  DEF(view); DEF(reshape); DEF(flatten); DEF(squeeze); DEF(squeeze_at); DEF(unsqueeze); DEF(transpose); DEF(transposed);
  DEF(permute); DEF(expand); m.def("select", &select_first); DEF(narrow); DEF(slice); DEF(contiguous); DEF(clone); DEF(to_type); DEF(same);
  DEF(make); DEF(like); DEF(listed); DEF(by_accessor); DEF(doubled); DEF(floats_only); DEF(first_float); DEF(item);
  DEF(half_round_trip); DEF(bfloat16_round_trip); DEF(half_values); DEF(fill_in_place); DEF(copy_in_place);
  DEF(operators); DEF(in_place); DEF(bad_matmul); DEF(total); DEF(pair_of); DEF(raise); DEF(parallel_sum);
  m.def("optional_of", &optional_of, py::arg("x") = py::none(), py::arg("s") = std::nullopt);
  m.def("scalars", &scalars, "Five scalars.", py::arg("a"), py::arg("b") = 2, py::arg("c") = 0.5f, py::arg("d") = true, py::arg("e") = "text");
  m.def("overloaded", static_cast<torch::Tensor (*)(torch::Tensor)>(&overloaded));
  m.def("overloaded", static_cast<int64_t (*)(int64_t)>(&overloaded));
  m.def("closure", [](torch::Tensor x) { return x.numel(); });
  m.attr("version") = 3;
}
