// PYBIND11_MODULE and m.def without pybind11: the same notation, a quarter of a second instead of ten.
//
// A module is a plain Python module whose functions are built-ins (METH_FASTCALL). The library exports
// one C function, `kevin_module`, that makes it. Every C++ exception is caught here and becomes a Python
// one. A call with one tensor in and out costs 0.3 µs (0.4 µs on the H200 machine's torch 2.11; measured
// 2026-11-30 on a shared small CPU, torch 2.13: this 0.32, the same function as a stable-ABI operator
// through torch.ops 1.1 to 1.3, ctypes with capsules 1.6, torch.empty_like alone 1.0).
//
// Classes, buffers, numpy arrays and call guards are left to the real pybind11.
#pragma once
#include <kevin/python.h>

namespace kevin_torch {
namespace binding {

struct arg {
  const char* name;
  PyObject* value = nullptr;  // the default, if any; lives as long as the process
  explicit arg(const char* name) : name(name) {}
  arg& noconvert(bool = true) { return *this; }
  arg& none(bool = true) { return *this; }
  template <class T> arg operator=(const T& given) const {
    arg out = *this;
    out.value = python::wrap(given);
    return out;
  }
};
inline std::nullopt_t none() { return nullopt; }
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals
struct doc { const char* text; explicit doc(const char* text) : text(text) {} };
struct gil_scoped_release {};  // accepted; the lock is kept
template <class...> struct call_guard {};
enum class return_value_policy { automatic, automatic_reference, take_ownership, copy, move, reference, reference_internal };

struct Overload {
  const char* doc = "";
  std::vector<arg> arguments;
  const char* const* kinds = nullptr;  // of the arguments, as messages name them
  size_t num_arguments = 0;
  const void* function = nullptr;
  PyObject* (*call)(const void* function, PyObject* const*) = nullptr;  // null result: arguments of other kinds
};

// --- one call --------------------------------------------------------------------------------------

template <class T> using Plain = std::remove_cv_t<std::remove_reference_t<T>>;
// Views are passed to functions that take ArrayRef; they are held as vectors meanwhile.
template <class T> struct Held { using type = T; };
template <class T> struct Held<ArrayRef<T>> { using type = std::vector<T>; };
template <> struct Held<const char*> { using type = std::string; };
template <class T> using HeldT = typename Held<Plain<T>>::type;

template <class A, class T> decltype(auto) passed(T& held) {
  if constexpr (std::is_same_v<Plain<A>, const char*>) return held.c_str();
  else if constexpr (std::is_same_v<Plain<A>, T> && !std::is_lvalue_reference_v<A>) return std::move(held);
  else if constexpr (std::is_same_v<Plain<A>, T>) return static_cast<T&>(held);
  else return Plain<A>(held);
}

template <class F, class R, class... A, size_t... I>
PyObject* call_unpacked(const F& function, PyObject* const* given, std::index_sequence<I...>) {
  std::tuple<std::optional<HeldT<A>>...> held;
  const bool fits = ((std::get<I>(held) = python::From<HeldT<A>>::get(given[I]), std::get<I>(held).has_value()) && ...);
  if (!fits) return nullptr;
  if constexpr (std::is_void_v<R>) {
    function(passed<A>(*std::get<I>(held))...);
    return python::none();
  } else {
    return python::wrap(static_cast<Plain<R>>(function(passed<A>(*std::get<I>(held))...)));
  }
}

inline void take(Overload& o, const char* doc) { o.doc = doc; }
inline void take(Overload& o, const doc& d) { o.doc = d.text; }
inline void take(Overload& o, const arg& a) { o.arguments.push_back(a); }
inline void take(Overload&, return_value_policy) {}
template <class... G> void take(Overload&, call_guard<G...>) {}

template <class R, class... A, class F, class... Extra>
Overload make_overload(F function, const Extra&... extra) {
  Overload o;
  o.num_arguments = sizeof...(A);
  (take(o, extra), ...);
  if (!o.arguments.empty() && o.arguments.size() != o.num_arguments)
    fail(Fault::Error, "py::arg must name every argument or none");
  static constexpr const char* kinds[] = {python::From<HeldT<A>>::name..., ""};
  o.kinds = kinds;
  o.function = new F(std::move(function));  // like the whole module, for the life of the process
  o.call = [](const void* f, PyObject* const* given) {
    return call_unpacked<F, R, A...>(*static_cast<const F*>(f), given, std::index_sequence_for<A...>());
  };
  return o;
}
template <class F> struct Signature : Signature<decltype(&F::operator())> {};
#define KEVIN_X(pattern, qualifier)                                                           \
  template <class R, class C, class... A> struct Signature<R (pattern)(A...) qualifier> {     \
    template <class F, class... E> static Overload make(F f, const E&... e) { return make_overload<R, A...>(f, e...); } \
  };
KEVIN_X(C::*, const) KEVIN_X(C::*, )
#undef KEVIN_X
template <class R, class... A> struct Signature<R (*)(A...)> {
  template <class F, class... E> static Overload make(F f, const E&... e) { return make_overload<R, A...>(f, e...); }
};

struct Function;
class module_ {
 public:
  explicit module_(PyObject* module) : module_object_(module) {}
  template <class F, class... Extra> module_& def(const char* name, F&& function, const Extra&... extra) {
    using Callable = std::decay_t<F>;
    add(name, Signature<Callable>::make(Callable(std::forward<F>(function)), extra...));
    return *this;
  }
  class Attribute {
   public:
    Attribute(PyObject* owner, const char* name) : owner_(owner), name_(name) {}
    template <class T> void operator=(const T& value) { set(python::Owned(python::wrap(value))); }

   private:
    void set(python::Owned object);
    PyObject* owner_;
    const char* name_;
  };
  Attribute attr(const char* name) { return {module_object_, name}; }
  Attribute doc() { return attr("__doc__"); }

 private:
  void add(const char* name, Overload overload);
  PyObject* module_object_;
  std::vector<Function*> functions_;
};
using module = module_;

PyObject* make_module(const char* name, void (*fill)(module_&));
}  // namespace binding
template <class F> F wrap_pybind_function(F function) { return function; }
}  // namespace kevin_torch

#define KEVIN_TEXT_(x) #x
#define KEVIN_TEXT(x) KEVIN_TEXT_(x)
#define PYBIND11_MODULE(name, variable, ...)                                                        \
  static void kevin_fill_module(::kevin_torch::binding::module_& variable);                         \
  extern "C" __attribute__((visibility("default"))) PyObject* kevin_module() {                      \
    return ::kevin_torch::binding::make_module(KEVIN_TEXT(name), kevin_fill_module);                \
  }                                                                                                 \
  static void kevin_fill_module([[maybe_unused]] ::kevin_torch::binding::module_& variable)
