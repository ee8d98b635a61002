// The bodies of kevin/binding.h: one call from Python, and the module. Compiled once for a machine (see support.py).
#include <new>

#include <kevin/binding.h>
#include <kevin/errors.h>

namespace kevin_torch {
namespace binding {

struct Function {
  std::string name, doc;
  std::vector<Overload> overloads;
};
namespace {

std::string signature(const Overload& o) {
  std::string out;
  for (size_t i = 0; i < o.num_arguments; ++i) {
    if (i) out += ", ";
    out += (o.arguments.empty() ? "arg" + std::to_string(i) : std::string(o.arguments[i].name)) + ": " + o.kinds[i];
  }
  return out;
}

// The arguments of one call in the order of the overload's; false when they do not fit by name or number.
bool bind(const Overload& o, PyObject* const* args, ptrdiff_t num_positional, PyObject* names, PyObject** out) {
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

PyObject* refuse(const Function& f, PyObject* const* args, ptrdiff_t count) {
  std::string text = f.name + "(): incompatible function arguments. The following argument types are supported:";
  for (size_t i = 0; i < f.overloads.size(); ++i)
    text += "\n    " + std::to_string(i + 1) + ". " + f.name + "(" + signature(f.overloads[i]) + ")";
  text += "\n\nInvoked with types: ";
  for (ptrdiff_t i = 0; i < count; ++i) {
    python::Owned type(PyObject_Type(args[i]));
    Text name;
    python::append(name, type.get());
    text += (i ? ", " : "") + to_string(name);
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  return nullptr;
}

PyObject* dispatch(const Function& f, PyObject* const* args, ptrdiff_t num_positional, PyObject* names) {
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
PyObject* enter(PyObject* self, PyObject* const* args, ptrdiff_t num_positional, PyObject* names) {
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
}  // namespace

void module_::Attribute::set(python::Owned object) {
  if (PyObject_SetAttrString(owner_, name_, object.get()) != 0) python::raise_from_python();
}

void module_::add(const char* name, Overload overload) {
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

PyObject* make_module(const char* name, void (*fill)(module_&)) {
  try {
    python::Owned object(python::checked(PyModule_New(name)));
    module_ m(object.get());
    fill(m);
    return object.release();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}
}  // namespace binding
}  // namespace kevin_torch
