"""The parameters of a kernel that a turn may change; together with the task they decide every byte of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPlan:
    """How the C++ kernels are written."""

    block: int = 1024
    """Columns of one inner loop; a sum is carried on in double precision from block to block."""
    chunk: int = 16384
    """Columns of one task where a row is shared by several threads."""
    split: bool = False
    """Whether several threads share a row, one parallel loop for each pass, instead of one row a thread."""
    keep: bool = True
    """Whether costly values are kept in a scratch row between passes, instead of being computed again."""
    stream: bool = False
    """Whether outputs are stored around the cache."""
    huge_pages: bool = True
    """Whether huge pages are asked for under large fresh outputs."""
    threads: int = 0
    """Number of threads; 0 is torch's own number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPlan:
    """How the CUDA kernels are written."""

    threads: int = 256
    """Threads of a block; for row kernels, the threads that share a row."""
    rows: int = 1
    """Rows of a block, where at most a warp works on each."""
    vector: int = 4
    """Elements that one thread loads at once, where alignment allows."""
    keep: Literal["none", "registers", "shared"] = "registers"
    """Where values wait between passes; `none` loads and computes them again."""
    split: int = 1
    """Blocks that share one row, one launch for each pass."""
    items: int = 1
    """Vectors that one thread handles in a kernel without reductions."""
    cluster: int = 1
    """Blocks of a cluster that share one row in one launch, each holding its part (compute capability 9.0)."""
    stream: bool = False
    """Whether what is read once and what is written are marked as not worth keeping in the cache."""
    channels_last: bool = False
    """Whether two-dimensional convolutions are asked for channels-last."""


Plan = CpuPlan | CudaPlan


HEADLINE = "# kevin's embedded proposer, "
WORDS = re.compile(r"(\w+)=(\w+)")


def headline(plan: Plan) -> str:
    """The first line of a candidate: its parameters, for people and for the turn after it."""
    values = " ".join(f"{field.name}={getattr(plan, field.name)}" for field in fields(plan))
    return f"{HEADLINE}{'C++' if isinstance(plan, CpuPlan) else 'CUDA'}: {values}\n"


def plan_of(source: str) -> Plan | None:
    """The parameters of an earlier candidate; `None` for one that somebody else wrote."""
    first = source.split("\n", 1)[0]
    if not first.startswith(HEADLINE):
        return None
    kind = CpuPlan if first.removeprefix(HEADLINE).startswith("C++") else CudaPlan
    values = dict(WORDS.findall(first))
    try:
        given = [field for field in fields(kind) if field.name in values]
        return kind(**{field.name: _value(values[field.name], field.type) for field in given})
    except ValueError:
        return None


def _value(text: str, kind: Any) -> Any:
    if kind == "bool":
        return text == "True"
    return int(text) if kind == "int" else text
