"""A kernel without reductions as CUDA: each thread takes a few vectors of the flat space."""

from __future__ import annotations

from kevin_cli.policies.embedded.cuda_frame import Frame, Grid
from kevin_cli.policies.embedded.passes import all_rows, passes


def write_flat(frame: Frame) -> Grid:
    """Write the kernel."""
    return _Flat(frame).write()


class _Flat:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.plan = frame.plan
        self.lines = frame.lines
        self.space = frame.space
        self.elements = frame.elements
        self.passes = passes(frame.program, lambda cell: False)
        if frame.plan.stream:
            self.elements.stream(list(self.passes))

    def write(self) -> Grid:
        frame, lines, space = self.frame, self.lines, self.space
        index = self.elements.index_type
        frame.open(frame.name, [], self.plan.threads)
        lines.add("#pragma unroll")
        lines.open(f"for (int item = 0; item < {self.plan.items}; ++item) {{")
        start = f"static_cast<{index}>(blockIdx.x) * {self.plan.items} + item"
        lines.add(f"const {index} at = ({start}) * {self.plan.threads} + threadIdx.x;")
        is_even = space.num_rows * frame.num_vectors % (self.plan.threads * self.plan.items) == 0
        if not is_even:  # without a branch the loads of all items are in flight together
            lines.open(f"if (at < {frame.vectors(space.num_rows * space.num_columns)}) {{")
        self._coordinates(index)
        for cell in all_rows(frame.program, self.passes):
            lines.add(*self.elements.statements(cell))
        self.elements.write_body(lines, self.passes[0])
        for _ in range(2 if is_even else 3):
            lines.close()
        return self._grid()

    def _grid(self) -> Grid:
        share = self.plan.threads * self.plan.items
        num_vectors = self.space.num_rows * self.frame.num_vectors
        blocks, scalar_blocks = -(-num_vectors // share), -(-self.space.num_rows * self.space.num_columns // share)
        return Grid(blocks, scalar_blocks, str(self.plan.threads))

    def _coordinates(self, index: str) -> None:
        if self.space.num_rows == 1:
            self.lines.add(f"const {index} column = at * kVector;")
        else:
            row_vectors = f"({self.frame.vectors(self.space.num_columns)})"
            self.lines.add(f"const {index} row = at / {row_vectors};")
            self.lines.add(f"const int column = static_cast<int>(at % {row_vectors}) * kVector;")
        self.elements.write_row_coordinates(self.lines)
        self.elements.write_row_pointers(self.lines, self.passes[0], set())
        self.elements.write_column_coordinates(self.lines)
