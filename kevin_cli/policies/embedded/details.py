"""What a value is beside its operands: where a tensor lies, what a reduction does, how a view moves coordinates."""

from __future__ import annotations

from dataclasses import dataclass

Plain = bool | int | float
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in memory that a kernel reads."""

    name: str
    """A Python identifier."""
    source: str
    """The Python expression inside `forward` that gives it."""
    strides: Shape


@dataclass(frozen=True, slots=True)
class Call:
    """A call left to torch: `text` with `{0}`, `{1}` for the tensor operands."""

    text: str
    strides: Shape = ()
    """How the result lies in memory; it is brought into that order when torch chose another."""


@dataclass(frozen=True, slots=True)
class Copy:
    """The operand, lying in memory as `strides` say."""

    strides: Shape


@dataclass(frozen=True, slots=True)
class Reduction:
    """`sum`, `max` or `min` over some dimensions."""

    op: str
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """Entries of one dimension from `start` on."""

    dim: int
    start: int


@dataclass(frozen=True, slots=True)
class Order:
    """Dimension `i` of the result is dimension `dims[i]` of the operand."""

    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pick:
    """Entries of dimension `dim` at computed places.

    `whole` takes every entry along the other dimensions (`index_select`, `embedding`): the places' dimensions stand
    where `dim` was. Otherwise one place for each element of the result (`gather`).
    """

    dim: int
    whole: bool
    wraps: bool = False
    """Whether negative places count from the end."""
    is_safe: bool = False
    """Whether places are known to lie inside."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A place that has to lie in [0, size); with `wraps` negative ones count from the end."""

    size: int
    wraps: bool


@dataclass(frozen=True, slots=True)
class Join:
    """Operands one after the other along `dim`."""

    dim: int


@dataclass(frozen=True, slots=True)
class Window:
    """A reduction over a small window of the last dimensions; places outside the tensor are left out."""

    op: str
    """`max` or `sum`."""
    sizes: Shape
    steps: Shape
    before: Shape
    """Padding before the first entry, for each dimension."""
    gaps: Shape
    """Distance of neighbouring entries of a window."""
    extent: Shape
    """Sizes of the tensor in these dimensions."""

    @property
    def is_inside(self) -> bool:
        """Whether no window leaves the tensor."""
        return not any(self.before)


@dataclass(frozen=True, slots=True)
class Scan:
    """Running `sum` or `prod` along one dimension."""

    op: str
    dim: int


Detail = Tensor | Call | Copy | Reduction | Slice | Order | Pick | Bound | Join | Window | Scan | Plain | str | None
