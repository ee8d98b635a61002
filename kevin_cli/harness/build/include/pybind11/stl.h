#pragma once
#include <kevin/torch.h>

#include <kevin/binding.h>

namespace pybind11 { using namespace kevin_torch::binding; }
namespace py = pybind11;
