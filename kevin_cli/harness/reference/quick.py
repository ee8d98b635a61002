"""Whether an output is surely right, by the module's own result on the same inputs: one pass, no float64.

    |candidate - float64|  <=  |candidate - module|  +  |module - float64|

The second part is known, relative to the output, from a full comparison of the same module with the same
weights (`numerics.py`). What is left of each of its bounds (`tolerance.py`) is what the candidate may
differ from the module: one kappa less for the RMS of the output and of each block, and for single
elements the cap without the module's own error. The typical magnitude m of a block enters by a lower
bound that needs no square roots, m >= mean**3 / RMS**2 (Hölder's inequality between the exponents 1/2,
1 and 2).

The candidate's elements are read once. An answer of False says that there is a doubt, not that it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from kevin_cli.harness.reference.errors import CHUNK, Relative, Sums, ranges
from kevin_cli.harness.reference.tolerance import Tolerance, tolerance_for


def surely_right(given: torch.Tensor, own: torch.Tensor, relative: Relative, *, half: bool) -> bool:
    """`given` and `own`: one-dimensional, of one type. `relative`: the module's own error."""
    if given.is_complex():
        given, own = (torch.view_as_real(tensor.resolve_conj()).reshape(-1) for tensor in (given, own))
    if not given.is_floating_point():
        return bool(torch.equal(given, own))
    full = tolerance_for(given.dtype, half=half, floor_factor=1.0)
    left = replace(full, kappa=full.kappa - 1.0, block_kappa=full.block_kappa - 1.0)
    sums = Sums()
    for given_rows, own_rows in _rows(given, own):
        if not _add(sums, given_rows, own_rows, left, relative):
            return False
    rms, own_rms, high_rms = sums.rms(relative)
    bound = left.kappa * own_rms + left.floor * left.eps * high_rms + left.tiny
    return rms <= bound and not sums.bad_block(left, relative)


def _rows(given: torch.Tensor, own: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Chunks of whole blocks as (blocks, elements), in float32 or wider."""
    exact = torch.promote_types(given.dtype, torch.float32)
    for start, stop, rows in ranges(given.numel(), CHUNK.get(given.device.type, CHUNK["cpu"])):
        yield given[start:stop].to(exact).view(rows, -1), own[start:stop].to(exact).view(rows, -1)


def _add(sums: Sums, given: torch.Tensor, own: torch.Tensor, left: Tolerance, relative: Relative) -> bool:
    """Add one chunk; False when a single element leaves a doubt."""
    found = _measure(given - own, own)
    if not bool(found.isfinite().all()):
        # Equal infinities and NaN are right; they take no part in the sums.
        same = (given == own) | (given.isnan() & own.isnan())
        error = torch.where(same, 0.0, given - own)
        found = _measure(error, torch.where(own.isfinite(), own, 0.0))
    error_norm, norm, worst, mean = found.unbind(1)
    rms = norm / own.shape[1] ** 0.5
    typical = mean * (mean / rms.clamp(min=torch.finfo(rms.dtype).tiny)).square()
    cap = (left.cap_error * relative.typical + left.cap_eps * left.eps) * typical + left.tiny
    squares = torch.stack([error_norm.double().square(), norm.double().square()], 1)
    count = torch.full_like(squares[:, :1], own.shape[1])
    sums.blocks.append(torch.cat([count, squares[:, :1], torch.zeros_like(count), squares[:, 1:]], 1))
    return bool((worst <= cap).all())


def _measure(error: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """(blocks, 4): norm of the error, norm, largest error, mean magnitude. `error` is overwritten."""
    error_norm, norm = torch.linalg.vector_norm(error, dim=1), torch.linalg.vector_norm(own, dim=1)
    return torch.stack([error_norm, norm, error.abs_().amax(1), own.abs().mean(1)], 1)
