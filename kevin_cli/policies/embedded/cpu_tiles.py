"""A product (`tiles.py`) as C++: tiles of results, what both sides need for a stretch of k packed beside each other.

Each task takes one tile. For every stretch of k both sides are computed into small arrays that stay in the core's
cache, so everything is loaded once for a whole tile; the innermost loops hold a few results in registers. Sums run
in float32 inside a stretch and over the stretches, which bounds their error. torch's own products are faster:
these are for rules that leave everything to the kernels.
"""

from __future__ import annotations

import math

from kevin_cli.policies.embedded.cpu_elements import Elements
from kevin_cli.policies.embedded.passes import rows_before
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.source import Lines
from kevin_cli.policies.embedded.space import Cell
from kevin_cli.policies.embedded.tiles import Product, combined, needed

TILE_LEFT, TILE_RIGHT, STRETCH = 32, 64, 128
MICRO_LEFT, MICRO_RIGHT = 4, 16
"""Results that the innermost loops hold in registers."""


def write_tiles(lines: Lines, kernel: Kernel, elements: Elements, product: Product) -> set[str]:
    """The body of the function; gives the pieces of mathematics that it uses beside those of its cells."""
    return _Tiles(lines, kernel, elements, product).write()


class _Tiles:
    def __init__(self, lines: Lines, kernel: Kernel, elements: Elements, product: Product) -> None:
        self.lines = lines
        self.program = kernel.program
        self.space = kernel.program.space
        self.elements = elements
        self.names = elements.names
        self.product = product
        self.is_sum = product.reduction.detail == "sum"
        self.piece = {"max": "maximum", "min": "minimum"}.get(str(product.reduction.detail), "")

    def write(self) -> set[str]:
        lines, product, program = self.lines, self.product, self.program
        sizes = [product.size(program, atoms) for atoms in (product.batch, product.left, product.right)]
        num_left, num_right = -(-sizes[1] // TILE_LEFT), -(-sizes[2] // TILE_RIGHT)
        lines.add("#pragma omp parallel for schedule(static) num_threads(num_threads)")
        lines.open(f"for (int64_t tile = 0; tile < {sizes[0] * num_left * num_right}; ++tile) {{")
        lines.add(f"const int64_t first_right = tile % {num_right} * {TILE_RIGHT};")
        lines.add(f"const int64_t first_left = tile / {num_right} % {num_left} * {TILE_LEFT};")
        lines.add(f"const int64_t num_left = std::min<int64_t>({TILE_LEFT}, {sizes[1]} - first_left);")
        lines.add(f"const int64_t num_right = std::min<int64_t>({TILE_RIGHT}, {sizes[2]} - first_right);")
        decode(lines, self.elements.rows, self.space.sizes, product.batch, f"tile / {num_left * num_right}")
        lines.add(f"alignas(64) float results[{TILE_LEFT}][{TILE_RIGHT}];")
        start = {"sum": "0.0f", "max": "-INFINITY", "min": "INFINITY"}[str(product.reduction.detail)]
        lines.add(f"std::fill_n(&results[0][0], {TILE_LEFT * TILE_RIGHT}, {start});")
        self._stretches()
        self._results()
        lines.close()
        return {self.piece} - {""}

    def _stretches(self) -> None:
        lines, num_columns = self.lines, self.space.num_columns
        for side, cells, size in self._sides():
            for cell in cells:
                shape = f"[{TILE_LEFT}][{STRETCH}]" if side == "left" else f"[{STRETCH}][{size}]"
                lines.add(f"alignas(64) float {self.names.of(cell)}_tile{shape};")
                lines.add(f"std::fill_n(&{self.names.of(cell)}_tile[0][0], {size * STRETCH}, 0.0f);")
        lines.open(f"for (int64_t first_k = 0; first_k < {num_columns}; first_k += {STRETCH}) {{")
        lines.add(f"const int64_t num_k = std::min<int64_t>({STRETCH}, {num_columns} - first_k);")
        for side, cells, _ in self._sides():
            self._pack(side, cells)
        self._multiply()
        lines.close()

    def _sides(self) -> list[tuple[str, tuple[Cell, ...], int]]:
        return [("left", self.product.left_cells, TILE_LEFT), ("right", self.product.right_cells, TILE_RIGHT)]

    def _pack(self, side: str, cells: tuple[Cell, ...]) -> None:
        """One side of the tile for this stretch of k, computed once."""
        lines = self.lines
        loops = ["left", "k"] if side == "left" else ["k", "right"]
        for name in loops:
            lines.open(f"for (int64_t {name} = 0; {name} < num_{name}; ++{name}) {{")
            atoms = getattr(self.product, name) if name != "k" else self._column_atoms()
            decode(
                lines, (*self.elements.rows, *self.elements.columns), self.space.sizes, atoms, f"first_{name} + {name}"
            )
        for cell in needed(cells):
            lines.add(*self.elements.statements(cell))
        for cell in cells:
            lines.add(f"{self.names.of(cell)}_tile[{loops[0]}][{loops[1]}] = {self.names.of(cell)};")
        for _ in loops:
            lines.close()

    def _column_atoms(self) -> tuple[int, ...]:
        return tuple(range(self.space.num_row_atoms, len(self.space.sizes)))

    def _multiply(self) -> None:
        lines = self.lines
        lines.open(f"for (int64_t left = 0; left < num_left; left += {MICRO_LEFT}) {{")
        lines.open(f"for (int64_t right = 0; right < num_right; right += {MICRO_RIGHT}) {{")
        lines.add(f"float part[{MICRO_LEFT}][{MICRO_RIGHT}];")
        self._over_micro(lambda: lines.add("part[i][j] = results[left + i][right + j];"))
        lines.open("for (int64_t k = 0; k < num_k; ++k) {")
        self._over_micro(self._combine)
        lines.close()
        self._over_micro(lambda: lines.add("results[left + i][right + j] = part[i][j];"))
        lines.close()
        lines.close()

    def _over_micro(self, body: object) -> None:
        assert callable(body)
        self.lines.add(f"#pragma GCC unroll {MICRO_LEFT}")
        self.lines.open(f"for (int i = 0; i < {MICRO_LEFT}; ++i) {{")
        self.lines.add("#pragma omp simd")
        self.lines.open(f"for (int j = 0; j < {MICRO_RIGHT}; ++j) {{")
        body()
        self.lines.close()
        self.lines.close()

    def _combine(self) -> None:
        lines, names = self.lines, self.names
        lines.add(*(f"const float {names.of(c)} = {names.of(c)}_tile[left + i][k];" for c in self.product.left_cells))
        lines.add(*(f"const float {names.of(c)} = {names.of(c)}_tile[k][right + j];" for c in self.product.right_cells))
        for cell in combined(self.product):
            lines.add(*self.elements.statements(cell))
        value = names.of(self.product.reduction.operands[0])
        lines.add(
            f"part[i][j] += {value};" if self.is_sum else f"part[i][j] = {self.piece[:3]}_nan(part[i][j], {value});"
        )

    def _results(self) -> None:
        """What comes after the product, for every result of the tile."""
        lines, reduction = self.lines, self.product.reduction
        for name in ("left", "right"):
            lines.open(f"for (int64_t {name} = 0; {name} < num_{name}; ++{name}) {{")
            atoms = getattr(self.product, name)
            decode(lines, self.elements.rows, self.space.sizes, atoms, f"first_{name} + {name}")
        lines.add(f"const float {self.names.of(reduction)} = results[left][right];")
        for cell in rows_before([store.cell for store in self.program.stores]):
            if cell is not reduction:
                lines.add(*self.elements.statements(cell))
        for store in self.program.stores:
            name = self.elements.output(store)
            lines.add(f"{self.elements.element(name, store.access)} = {self.elements.stored(store)};")
        lines.close()
        lines.close()


def decode(lines: Lines, names: tuple[str, ...], sizes: tuple[int, ...], atoms: tuple[int, ...], linear: str) -> None:
    """The coordinates of some atoms from their linear number."""
    inner = 1
    for place, atom in reversed(list(enumerate(atoms))):
        value = f"({linear}) / {inner}" if inner > 1 else f"({linear})"
        lines.add(f"const int64_t {names[atom]} = {value}{f' % {sizes[atom]}' if place else ''};")
        inner *= sizes[atom]
    assert inner == math.prod(sizes[atom] for atom in atoms)
