#pragma once
#include <kevin/torch.h>
#ifndef KEVIN_LEAN
#include <kevin/binding.h>

namespace pybind11 { using namespace kevin_torch::binding; }
namespace py = pybind11;
#endif
