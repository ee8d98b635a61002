"""Outputs that are not unique: factors of a matrix, judged by what they have to be and not by their numbers.

Eigenvectors and singular vectors have no sign (a complex one no phase), nearly equal eigenvalues share a subspace,
`eig` has no order. So where a module returns such factors as they are, they are held to their properties, taken in
float64 from the numbers that were given:

    qr     Q'Q = I,  R upper triangular,  QR = A
    eigh   V'V = I,  AV = V diag(w)                      (w, ascending, is compared as any output)
    svd    U'U = I,  VhVh' = I,  U diag(S) Vh = A        (S, descending, is compared as any output)
    eig    |v| = 1 for each column,  AV = V diag(w),  w a permutation of the module's

each with an RMS residual of at most `KAPPA` times the module's own plus `FLOOR` eps, relative to the matrix. A factor
that is missing among the outputs is had from the others (R = Q'A, w from V'AV), on both sides alike. Scaled residuals
are how LAPACK's tests judge the same.

A module that computes further with such factors may depend on their signs. `depends_on_signs` runs it with other
signs, which would be as right: outputs that change then cannot be told right from wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kevin_cli.harness.reference.numerics import Compared
from kevin_cli.harness.reference.subject import Subject, clone

KAPPA = 8.0
FLOOR = 32.0
KINDS = {"linalg_qr": "qr", "_linalg_eigh": "eigh", "_linalg_svd": "svd", "linalg_eig": "eig"}
PARTS = {"qr": ("q", "r"), "eigh": ("w", "v"), "svd": ("u", "s", "vh"), "eig": ("w", "v")}
UNIQUE = {"eigh": "w", "svd": "s"}
"""Parts that are compared as any output."""

Parts = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Factors:
    """One factorisation: its kind, the matrix and its parts, as the module had them."""

    kind: str
    matrix: torch.Tensor
    parts: Parts


@dataclass(slots=True)
class Returned:
    """Which outputs are parts of one factorisation: name of the part -> index of the output."""

    factors: Factors
    outputs: dict[str, int] = field(default_factory=dict)


class _Noted(TorchDispatchMode):  # type: ignore[misc]
    """Notes the factorisations of one run; with `flips` it gives every factor other signs."""

    def __init__(self, *, flips: bool = False) -> None:
        super().__init__()
        self.found: list[Factors] = []
        self._flips = flips

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = KINDS.get(func._schema.name.split("::")[-1])
        if kind is None or not isinstance(result, tuple | list):
            return result
        parts = dict(zip(PARTS[kind], result, strict=False))
        if any(part.numel() == 0 for part in parts.values()):  # values alone were asked for
            return result
        parts = _flipped(parts) if self._flips else parts
        self.found.append(Factors(kind, args[0].detach().clone(), parts))
        return type(result)(parts.values()) if isinstance(result, list) else tuple(parts.values())


def _flipped(parts: Parts) -> Parts:
    """Every second vector with the other sign, in all factors that share it."""
    changed = {}
    for name, part in parts.items():
        dim = {"q": -1, "v": -1, "u": -1, "r": -2, "vh": -2}.get(name)
        changed[name] = part if dim is None else part * _signs(part, dim)
    return changed


def _signs(part: torch.Tensor, dim: int) -> torch.Tensor:
    signs = torch.ones(part.shape[dim], dtype=part.dtype, device=part.device)
    signs[::2] = -1
    return signs if dim == -1 else signs.unsqueeze(-1)


def find_returned(subject: Subject, inputs: Sequence[torch.Tensor]) -> list[Returned]:
    """The factorisations whose parts the module returns as they are. Runs it once."""
    noted = _Noted()
    subject.restore_state(subject.module)
    own = subject.call(subject.module, [clone(tensor) for tensor in inputs], mode=noted)
    found = []
    for factors in noted.found:
        places = {
            name: index
            for name, part in factors.parts.items()
            for index, tensor in enumerate(own)
            if tensor.data_ptr() == part.data_ptr() and tensor.shape == part.shape
        }
        if set(places) - {UNIQUE.get(factors.kind)}:
            found.append(Returned(factors, places))
    return found


def depends_on_signs(subject: Subject, inputs: Sequence[torch.Tensor]) -> list[int]:
    """Outputs that are no factors themselves and change with the signs of one. Runs the module three times."""
    direct = {index for returned in find_returned(subject, inputs) for index in returned.outputs.values()}
    flips = _Noted(flips=True)
    own = subject.run(inputs)
    subject.restore_state(subject.module)
    other = subject.call(subject.module, [clone(tensor) for tensor in inputs], mode=flips)
    if not flips.found:
        return []
    pairs = enumerate(zip(own, other, strict=True))
    return [index for index, pair in pairs if index not in direct and not torch.allclose(*pair, rtol=1e-3, atol=1e-3)]


def judge(returned: Returned, given: Sequence[torch.Tensor]) -> dict[int, Compared]:
    """One result for each output that is a part and not unique by itself."""
    factors = returned.factors
    offered = {name: given[index] for name, index in returned.outputs.items()}
    kept = {name: factors.parts[name] for name in offered}
    own, theirs = (_residuals(factors, _completed(factors, parts)) for parts in (kept, offered))
    eps = torch.finfo(factors.matrix.dtype).eps
    worst = max(theirs, key=lambda name: theirs[name] / (KAPPA * own[name] + FLOOR * eps))
    bound = KAPPA * own[worst] + FLOOR * eps
    passed = all(theirs[name] <= KAPPA * own[name] + FLOOR * eps for name in theirs)  # NaN is not
    words = "judged by its properties" if passed else f"{worst}: residual {theirs[worst]:.2e}, allowed {bound:.2e}"
    result = Compared(
        passed=passed,
        kind="ok" if passed else "values",
        rms_error=theirs[worst],
        reference_rms_error=own[worst],
        max_error=theirs[worst],
        bound=bound,
        detail=words,
    )
    return {index: result for name, index in returned.outputs.items() if name != UNIQUE.get(factors.kind)}


# --- what the parts have to be -----------------------------------------------------------------------


def _completed(factors: Factors, offered: Parts) -> Parts:
    """With the parts that are no outputs, had from those that are; the module's are completed in the same way."""
    wide, matrix = {name: _wide(part) for name, part in offered.items()}, _wide(factors.matrix)
    complete = {"qr": _complete_qr, "svd": _complete_svd}.get(factors.kind, _complete_eigen)
    return complete(wide, matrix, factors.kind)


def _complete_qr(parts: Parts, matrix: torch.Tensor, kind: str) -> Parts:
    if "r" not in parts:
        return {**parts, "r": parts["q"].mH @ matrix}
    return (
        parts
        if "q" in parts
        else {**parts, "q": torch.linalg.solve_triangular(parts["r"], matrix, upper=True, left=False)}
    )


def _complete_svd(parts: Parts, matrix: torch.Tensor, kind: str) -> Parts:
    if "s" not in parts:
        turned = parts["u"].mH @ matrix if "u" in parts else matrix @ parts["vh"].mH
        lengths = turned.abs().square().sum(-1 if "u" in parts else -2).sqrt()
        parts = {**parts, "s": lengths[..., : min(matrix.shape[-2:])]}
    scale, size = parts["s"].clamp(min=1e-300), parts["s"].shape[-1]
    if "vh" not in parts:
        return {**parts, "vh": (parts["u"][..., :size].mH @ matrix) / scale.unsqueeze(-1)}
    return parts if "u" in parts else {**parts, "u": (matrix @ parts["vh"][..., :size, :].mH) / scale.unsqueeze(-2)}


def _complete_eigen(parts: Parts, matrix: torch.Tensor, kind: str) -> Parts:
    if "v" not in parts or "w" in parts:
        return parts
    vectors = parts["v"]
    values = (vectors.conj() * (matrix.to(vectors.dtype) @ vectors)).sum(-2)
    return {**parts, "w": values.real if kind == "eigh" else values}


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _residuals(factors: Factors, parts: Parts) -> dict[str, float]:
    """Relative RMS residual of each property, by its name in words."""
    matrix, wide = _wide(factors.matrix), {name: _wide(part) for name, part in parts.items()}
    if factors.kind == "qr":
        q, r = wide["q"], wide["r"]
        return {
            "Q'Q = I": _identity(q.mH @ q),
            "R upper triangular": _ratio(r.tril(-1), r),
            "QR = A": _ratio(q @ r - matrix, matrix),
        }
    if factors.kind == "svd":
        u, s, vh = wide["u"], wide["s"].to(wide["u"].dtype), wide["vh"]
        size = s.shape[-1]
        return {
            "U'U = I": _identity(u.mH @ u),
            "VhVh' = I": _identity(vh @ vh.mH),
            "S descending": _ratio((wide["s"][..., 1:] - wide["s"][..., :-1]).clamp(min=0.0), wide["s"]),
            "U diag(S) Vh = A": _ratio((u[..., :size] * s.unsqueeze(-2)) @ vh[..., :size, :] - matrix, matrix),
        }
    if "v" not in wide:
        return {"w as the module's": _ratio(_unmatched(wide["w"], _wide(factors.parts["w"])), matrix)}
    w, v = wide["w"], wide["v"]
    matrix = _symmetric(matrix) if factors.kind == "eigh" else matrix.to(v.dtype)
    reached = {"AV = V diag(w)": _ratio(matrix @ v - v * w.to(v.dtype).unsqueeze(-2), matrix)}
    if factors.kind == "eigh":
        falls = (w[..., :-1] - w[..., 1:]).clamp(min=0.0)
        return {**reached, "V'V = I": _identity(v.mH @ v), "w ascending": _ratio(falls, w)}
    lengths = v.abs().square().sum(-2).sqrt() - 1
    return {
        **reached,
        "|v| = 1": float(lengths.square().mean().sqrt()),
        "w as the module's": _ratio(_unmatched(w, _wide(factors.parts["w"])), matrix),
    }


def _symmetric(matrix: torch.Tensor) -> torch.Tensor:
    """What `eigh` reads of a matrix: its lower triangle."""
    low = matrix.tril(-1)
    return low + low.mH + torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1).real.to(matrix.dtype))


def _identity(product: torch.Tensor) -> float:
    eye = torch.eye(product.shape[-1], dtype=product.dtype, device=product.device)
    return _ratio(product - eye, eye.expand_as(product))


def _ratio(residual: torch.Tensor, whole: torch.Tensor) -> float:
    """The worst matrix of a batch: norm of the residual over norm of the whole."""
    if residual.numel() == 0:
        return 0.0
    dims = tuple(range(-min(2, residual.dim()), 0))
    size = whole.abs().square().sum(tuple(range(-min(2, whole.dim()), 0))).sqrt()
    found = residual.abs().square().sum(dims).sqrt() / size.clamp(min=1e-300)
    worst = float(found.max())
    return worst if math.isfinite(worst) else math.inf


def _unmatched(w: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """How far each eigenvalue is from the nearest one of the module's that no other has taken; by batch."""
    rows = []
    for mine, theirs in zip(w.reshape(-1, w.shape[-1]), own.reshape(-1, own.shape[-1]), strict=True):
        distances, left = (mine.unsqueeze(1) - theirs).abs(), []
        for row in distances:
            left.append(row.min())
            distances[:, int(row.argmin())] = math.inf
        rows.append(torch.stack(left))
    return torch.stack(rows).reshape(w.shape)
