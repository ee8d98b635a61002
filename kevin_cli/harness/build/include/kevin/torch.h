// Everything that <torch/extension.h> brings, thin: own names, aliased into torch's namespaces.
//
// The types live in `kevin_torch` and not in `at`, so that nothing here can be taken for a symbol of
// libtorch's, and the library is compiled with hidden visibility for the same reason.
#pragma once
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <kevin/dispatch.h>
#include <kevin/factories.h>
#ifndef KEVIN_LEAN
#include <kevin/operators.h>
#endif
#include <kevin/parallel.h>

namespace at { using namespace kevin_torch; }
namespace c10 { using namespace kevin_torch; }
namespace torch { using namespace kevin_torch; }
namespace caffe2 { using kevin_torch::TypeMeta; }
