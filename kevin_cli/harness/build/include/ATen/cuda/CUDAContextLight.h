#pragma once
#include <kevin/torch.h>

#include <kevin/cuda.h>
