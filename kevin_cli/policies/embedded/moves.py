"""What decides which plans make sense for a kernel, and a plan with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.plan import Plan


@dataclass(frozen=True, slots=True)
class Shape:
    """What about a module's kernels decides which plans make sense."""

    num_rows: int
    num_columns: int
    has_reductions: bool
    has_kept: bool
    """Whether passes have something costly to hand on."""
    num_lanes: int = 0
    """Rows that lie beside each other in memory, where what is reduced is not contiguous; else 0."""
    item_bytes: int = 4
    """Of the narrowest element that is loaded along the columns."""
    num_loads: int = 1
    """Tensors that are read along the columns."""
    num_passes: int = 1
    num_tiles: int = 0
    """Tiles of 128 x 128 results, where it is a product; else 0."""
    has_convolutions: bool = False
    """Whether torch does two-dimensional convolutions that do not run channels-last already."""

    @property
    def vector(self) -> int:
        """Elements of one load of 16 bytes; of narrow types 8, since results may be wider."""
        return max(1, min(16 // self.item_bytes, 8))


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan and the sentence that explains it."""

    plan: Plan
    reason: str
