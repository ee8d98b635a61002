#pragma once
#include <kevin/torch.h>
