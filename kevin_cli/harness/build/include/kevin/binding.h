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
#include <new>

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
  std::string doc, signature;
  std::vector<arg> arguments;
  size_t num_arguments = 0;
  const void* function = nullptr;
  PyObject* (*call)(const void* function, PyObject* const*) = nullptr;  // null result: arguments of other kinds
};
struct Function {
  std::string name, doc;
  std::vector<Overload> overloads;
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
    raise<Error>("py::arg must name every argument or none");
  const char* names[] = {python::From<HeldT<A>>::name..., ""};
  for (size_t i = 0; i < o.num_arguments; ++i) {
    if (i) o.signature += ", ";
    o.signature += (o.arguments.empty() ? "arg" + std::to_string(i) : std::string(o.arguments[i].name)) + ": " + names[i];
  }
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

// The arguments of one call in the order of the overload's; false when they do not fit by name or number.
inline bool bind(const Overload& o, PyObject* const* args, ptrdiff_t num_positional, PyObject* names, PyObject** out) {
  const ptrdiff_t count = static_cast<ptrdiff_t>(o.num_arguments), num_named = names ? PyTuple_Size(names) : 0;
  if (num_positional > count) return false;
  ptrdiff_t used = 0;
  for (ptrdiff_t i = 0; i < count; ++i) {
    out[i] = i < num_positional ? args[i] : nullptr;
    if (o.arguments.empty()) {
      if (!out[i]) return false;
      continue;
    }
    for (ptrdiff_t k = 0; k < num_named; ++k) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, k), o.arguments[i].name) != 0) continue;
      if (out[i]) return false;
      out[i] = args[num_positional + k];
      ++used;
    }
    if (!out[i] && o.arguments[i].value) out[i] = o.arguments[i].value;
    if (!out[i]) return false;
  }
  return used == num_named;
}

inline PyObject* refuse(const Function& f, PyObject* const* args, ptrdiff_t count) {
  std::string text = f.name + "(): incompatible function arguments. The following argument types are supported:";
  for (size_t i = 0; i < f.overloads.size(); ++i)
    text += "\n    " + std::to_string(i + 1) + ". " + f.name + "(" + f.overloads[i].signature + ")";
  text += "\n\nInvoked with types: ";
  for (ptrdiff_t i = 0; i < count; ++i) {
    python::Owned type(PyObject_Type(args[i]));
    text += (i ? ", " : "") + python::text_of(type.get());
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  return nullptr;
}

inline PyObject* dispatch(const Function& f, PyObject* const* args, ptrdiff_t num_positional, PyObject* names) {
  for (const Overload& o : f.overloads) {
    PyObject* few[16];
    std::vector<PyObject*> many;
    if (o.num_arguments > 16) many.resize(o.num_arguments);
    PyObject** const bound = many.empty() ? few : many.data();
    if (!bind(o, args, num_positional, names, bound)) continue;
    if (PyObject* result = o.call(o.function, bound)) return result;
    if (PyErr_Occurred()) return nullptr;
  }
  return refuse(f, args, num_positional + (names ? PyTuple_Size(names) : 0));
}

// The boundary: nothing of C++ goes further.
inline PyObject* enter(PyObject* self, PyObject* const* args, ptrdiff_t num_positional, PyObject* names) {
  PyObject* type = PyExc_RuntimeError;
  std::string text;
  try {
    return dispatch(*static_cast<const Function*>(PyCapsule_GetPointer(self, nullptr)), args, num_positional, names);
  } catch (const IndexError& e) { type = PyExc_IndexError, text = e.what();
  } catch (const ValueError& e) { type = PyExc_ValueError, text = e.what();
  } catch (const TypeError& e) { type = PyExc_TypeError, text = e.what();
  } catch (const NotImplementedError& e) { type = PyExc_NotImplementedError, text = e.what();
  } catch (const std::bad_alloc& e) { type = PyExc_MemoryError, text = e.what();
  } catch (const std::out_of_range& e) { type = PyExc_IndexError, text = e.what();
  } catch (const std::invalid_argument& e) { type = PyExc_ValueError, text = e.what();
  } catch (const std::domain_error& e) { type = PyExc_ValueError, text = e.what();
  } catch (const std::length_error& e) { type = PyExc_ValueError, text = e.what();
  } catch (const std::range_error& e) { type = PyExc_ValueError, text = e.what();
  } catch (const std::overflow_error& e) { type = PyExc_OverflowError, text = e.what();
  } catch (const std::exception& e) { text = e.what();
  } catch (...) { text = "Caught an unknown exception!"; }
  PyErr_SetString(type, text.c_str());
  return nullptr;
}

struct Method {  // PyMethodDef, as the limited API fixes it
  const char* name;
  PyObject* (*call)(PyObject*, PyObject* const*, ptrdiff_t, PyObject*);
  int flags;
  const char* doc;
};
constexpr int kFastcallWithKeywords = 0x0080 | 0x0002;

class module_ {
 public:
  explicit module_(PyObject* module) : module_object_(module) {}
  template <class F, class... Extra> module_& def(const char* name, F&& function, const Extra&... extra) {
    using Callable = std::decay_t<F>;
    add(name, Signature<Callable>::make(Callable(std::forward<F>(function)), extra...));
    return *this;
  }
  std::string& doc() { return doc_; }
  class Attribute {
   public:
    Attribute(PyObject* owner, const char* name) : owner_(owner), name_(name) {}
    template <class T> void operator=(const T& value) {
      python::Owned object(python::wrap(value));
      if (PyObject_SetAttrString(owner_, name_, object.get()) != 0) python::raise_from_python();
    }

   private:
    PyObject* owner_;
    const char* name_;
  };
  Attribute attr(const char* name) { return {module_object_, name}; }
  void publish_doc() { if (!doc_.empty()) attr("__doc__") = doc_; }

 private:
  void add(const char* name, Overload overload) {
    for (Function* f : functions_)
      if (f->name == name) return f->overloads.push_back(std::move(overload));
    auto* const f = new Function{name, overload.doc, {}};  // functions and methods live as long as the process
    f->overloads.push_back(std::move(overload));
    functions_.push_back(f);
    auto* const method = new Method{f->name.c_str(), enter, kFastcallWithKeywords, f->doc.c_str()};
    python::Owned self(python::checked(PyCapsule_New(f, nullptr, nullptr)));
    python::Owned object(python::checked(PyCFunction_NewEx(reinterpret_cast<PyMethodDef*>(method), self.get(), nullptr)));
    if (PyObject_SetAttrString(module_object_, name, object.get()) != 0) python::raise_from_python();
  }
  PyObject* module_object_;
  std::string doc_;
  std::vector<Function*> functions_;
};
using module = module_;

inline PyObject* make_module(const char* name, void (*fill)(module_&)) {
  try {
    python::Owned object(python::checked(PyModule_New(name)));
    module_ m(object.get());
    fill(m);
    m.publish_doc();
    return object.release();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}
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
