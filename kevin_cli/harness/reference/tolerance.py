"""How much error is allowed, for each type of output.

    RMS(candidate - float64)  <=  kappa * RMS(module - float64)  +  floor * eps * RMS(float64)

kappa 2 (3 with half types) as in torch dynamo's `same()` and FlashAttention's tests: the error of the
user's own module is the unit. The floor is for outputs that the module happens to get exactly right; 32
float32 eps admit a plain sequential sum of 16,384 products (relative error 0.4 * sqrt(K) * eps / 2) and
are 100 times below what TF32, bfloat16 or float16 products leave.

The same for each block of 4,096 consecutive elements, wider, so that a wrong tile can't hide in the mean,
and a hard cap for every single element, without any share of elements that may be wrong:

    |candidate - float64|  <=  cap_error * s + cap_eps * eps * (|float64| + m) + kappa * |module - float64|

s and m are the typical error and magnitude in the block: the squared mean of square roots, which a few
outliers (a module's own rounding flips, heavy tails) hardly move.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

BLOCK = 4096
HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    kappa: float
    block_kappa: float
    floor: float
    """Times `eps * RMS`; already doubled where the reference is float32 itself."""
    cap_error: float
    cap_eps: float
    eps: float
    tiny: float
    """Absolute: results below the normal range may be flushed to zero."""


def tolerance_for(dtype: torch.dtype, *, half: bool, floor_factor: float) -> Tolerance:
    """`half`: the module computes in a half type somewhere, whatever this output's type is."""
    info = torch.finfo(dtype)
    if dtype is torch.float64:
        kappa, floor, cap_error, cap_eps = 2.0, 128.0, 64.0, 1024.0
    elif dtype is torch.float32:
        kappa, floor, cap_error, cap_eps = (3.0 if half else 2.0), 32.0, 64.0, 256.0
    else:
        kappa, floor, cap_error, cap_eps = 3.0, 1.0, 16.0, 4.0
    return Tolerance(
        kappa=kappa,
        block_kappa=kappa + 3.0,
        floor=floor * floor_factor,
        cap_error=cap_error,
        cap_eps=cap_eps * floor_factor,
        eps=info.eps,
        tiny=info.smallest_normal * (info.eps if dtype is torch.float16 else 1.0),
    )
