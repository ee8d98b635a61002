"""How a GPU computes products and convolutions of float32: in TF32 or not, as a setting of the process.

torch has two interfaces to it, and refuses to read the older one after the newer one has set something
else. So it is read by the newer and set by the older, which sets both; what the user's file chose is
restored by whichever told it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

TF32 = "tf32"


def tf32_of_products() -> bool:
    return str(torch.backends.cuda.matmul.fp32_precision) == TF32


def tf32_of_convolutions() -> bool:
    return str(torch.backends.cudnn.conv.fp32_precision) == TF32


@contextlib.contextmanager
def tf32(*, on: bool) -> Iterator[None]:
    """Both kinds with TF32 or without it; the user's own setting is back afterwards."""
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    kinds = (cuda, cudnn.conv, cudnn.rnn)
    before, wording = [kind.fp32_precision for kind in kinds], _wording()
    cuda.allow_tf32 = cudnn.allow_tf32 = on
    try:
        yield
    finally:
        cuda.allow_tf32, cudnn.allow_tf32 = before[0] == TF32, before[1] == TF32
        if wording:
            torch.set_float32_matmul_precision(wording)
        for kind, precision in zip(kinds, before, strict=True):
            if kind.fp32_precision != precision:
                kind.fp32_precision = precision


def _wording() -> str:
    """`highest`, `high` or `medium`; empty where torch refuses to say."""
    with contextlib.suppress(RuntimeError):
        return str(torch.get_float32_matmul_precision())
    return ""
