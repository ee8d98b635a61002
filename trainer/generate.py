"""New tasks in the style of KernelBench's level 2: perhaps one heavy operation, then two to five others.

As the paper's own evaluation set was made (arXiv 2507.11948, A.2), with a seeded draw in the place of a language
model. A sketch is kept only if its sequence is new; whether its module runs, takes long enough and can tell right
from wrong is for the judge to say (`screen.py`). A quarter of all sequences, by hash, is held out for ever: no
training or warm-start data may come from them.

Not promised: that a generated task resembles what people write. It is as varied as its operations.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kevin_cli.types import Contract, DeviceKind, Domain, ParameterSpec, Target, Task, TensorSpec, Tree
from trainer.operations import BY_NAME, ELEMENTS, HEAVY, POOLS, REDUCTIONS, ROWS, Operation, is_idle

Family = Literal["light", "heavy", "mixed"]
HELD_OUT_SHARE = 4
"""One sequence in so many is held out."""
_TITLE = re.compile(r'^    """(?P<names>[a-z0-9_]+(?:, [a-z0-9_]+)*)"""$', re.MULTILINE)
MAX_DRAWS = 200
"""Draws without a new sequence before the family counts as used up."""

_ROWS_COLUMNS = {
    DeviceKind.CUDA: ((4096, 4096), (8192, 2048), (16384, 1024), (2048, 8192)),
    DeviceKind.CPU: ((1024, 1024), (2048, 512), (512, 2048)),
}


@dataclass(frozen=True, slots=True)
class Sketch:
    """A sequence of operations and the size it runs on."""

    names: tuple[str, ...]
    rows: int
    columns: int

    @property
    def sequence(self) -> str:
        return "-".join(self.names)

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(BY_NAME[name] for name in self.names)

    @property
    def is_held_out(self) -> bool:
        return is_held_out(self.names)

    @property
    def task_name(self) -> str:
        return "_".join(self.names)


def is_held_out(names: Collection[str]) -> bool:
    """By the sequence alone, so that it never depends on a seed, a size or a device."""
    return hashlib.sha256("-".join(names).encode()).digest()[0] % HELD_OUT_SHARE == 0


def draw(
    number: int, *, seed: int, device: DeviceKind, held_out: bool, family: Family = "light", known: Collection[str] = ()
) -> list[Sketch]:
    """`number` sketches with different sequences, none of them in `known`; the same for the same seed.

    `held_out` draws from the held-out quarter only, otherwise from the rest only. Fewer come back when the family
    has no more.
    """
    randomness = random.Random(f"{seed}/{family}/{held_out}")
    sizes = _ROWS_COLUMNS[device]
    found: list[Sketch] = []
    for names in _fresh_sequences(randomness, family, set(known)):
        if is_held_out(names) == held_out:
            found.append(Sketch(names, *randomness.choice(sizes)))
        if len(found) == number:
            break
    return found


def _fresh_sequences(randomness: random.Random, family: Family, seen: set[str]) -> Iterator[tuple[str, ...]]:
    failures = 0
    while failures < MAX_DRAWS:
        names = _sequence(randomness, family)
        sequence = "-".join(names)
        failures = failures + 1 if sequence in seen else 0
        if sequence not in seen:
            seen.add(sequence)
            yield names


def _sequence(randomness: random.Random, family: Family) -> tuple[str, ...]:
    heavy = randomness.choice(HEAVY) if family == "heavy" or (family == "mixed" and randomness.random() < 0.5) else None
    length = randomness.randint(2, 5) if heavy else randomness.randint(3, 5)
    chosen: list[Operation] = [heavy] if heavy else []
    while len(chosen) < length + bool(heavy):
        choices = _choices(chosen, is_last=len(chosen) + 1 == length + bool(heavy))
        chosen.append(randomness.choice(choices))
    return tuple(operation.name for operation in chosen)


def _choices(chosen: list[Operation], *, is_last: bool) -> list[Operation]:
    """What may come next: nothing idle, nothing squeezed twice, one operation over rows, one second input.

    Softmax only at the end: its small values leave nothing to tell apart to what comes after.
    """
    last = chosen[-1] if chosen else None
    choices = [operation for operation in ELEMENTS if _fits(operation, chosen, last)]
    is_image = bool(chosen) and "conv" in chosen[0].name
    if is_image:
        return choices + [pool for pool in POOLS if pool not in chosen] * 2
    if not any(operation.kind == "row" for operation in chosen):
        choices += [row for row in ROWS if row.name != "softmax" or is_last] * 2
        choices += list(REDUCTIONS) * 2 if is_last else []
    return choices


def _fits(operation: Operation, chosen: list[Operation], last: Operation | None) -> bool:
    if last and (is_idle(operation.name, last.range) or (operation.saturates and last.saturates)):
        return False
    if operation.argument == "tensor" and any(other.argument == "tensor" for other in chosen):
        return False
    if operation.argument == "tensor" and chosen and chosen[0].kind == "heavy":
        return False
    return operation not in chosen


# --- as a module -----------------------------------------------------------------------------------


def module_source(sketch: Sketch, device: DeviceKind) -> str:
    """The sketch as a file in KernelBench's form."""
    heavy = sketch.operations[0] if sketch.operations[0].kind == "heavy" else None
    shape = _heavy_form(heavy.name, device) if heavy else _light_form(sketch)
    body = "".join(f"        x = {_statement(operation, shape)}\n" for operation in sketch.operations)
    arguments = ", ".join(["x", *shape.more_inputs, *(["y"] if _has_second(sketch) else [])])
    parameters = "".join(
        f"        self.{name} = nn.Parameter(torch.randn({shape.vector}) * 0.1 + {start})\n"
        for name, start in (("bias", "0.0"), ("gain", "1.0"))
        if name in sketch.names
    )
    inputs = ", ".join([shape.input, *shape.more_input_values, *([shape.output] if _has_second(sketch) else [])])
    return _FORM.format(
        title=", ".join(sketch.names),
        imports="import torch.nn.functional as F\n" if "F." in body else "",
        init=shape.init + parameters,
        arguments=arguments,
        body=body,
        inputs=inputs,
    )


_FORM = '''import torch
{imports}from torch import nn


class Model(nn.Module):
    """{title}"""

    def __init__(self):
        super().__init__()
{init}
    def forward(self, {arguments}):
{body}        return x


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """The text around a sequence."""

    input: str
    output: str
    vector: str
    init: str = ""
    more_inputs: tuple[str, ...] = ()
    more_input_values: tuple[str, ...] = ()
    num_dimensions: int = 0
    """Of an image, for pooling."""


def _light_form(sketch: Sketch) -> _Form:
    size = f"torch.randn({sketch.rows}, {sketch.columns})"
    return _Form(input=size, output=size, vector=str(sketch.columns))


def _heavy_form(name: str, device: DeviceKind) -> _Form:
    is_cuda = device is DeviceKind.CUDA
    if name in ("linear", "matmul"):
        rows, inner, outer = (4096, 2048, 4096) if is_cuda else (256, 256, 512)
        init = (
            f"        self.linear = nn.Linear({inner}, {outer})\n"
            if name == "linear"
            else f"        self.weight = nn.Parameter(torch.randn({inner}, {outer}) * {inner} ** -0.5)\n"
        )
        output = f"torch.randn({rows}, {outer})"
        return _Form(input=f"torch.randn({rows}, {inner})", output=output, vector=str(outer), init=init)
    if name == "bmm":
        batch, rows, inner, outer = (64, 512, 256, 512) if is_cuda else (8, 64, 64, 128)
        return _Form(
            input=f"torch.randn({batch}, {rows}, {inner})",
            output=f"torch.randn({batch}, {rows}, {outer})",
            vector=str(outer),
            more_inputs=("z",),
            more_input_values=(f"torch.randn({batch}, {inner}, {outer}) * {inner} ** -0.5",),
        )
    return _convolution_form(name, is_cuda)


def _convolution_form(name: str, is_cuda: bool) -> _Form:
    dimensions = 3 if name.endswith("3d") else 2
    batch, channels, edge = ((32, 32, 128) if dimensions == 2 else (8, 16, 32)) if is_cuda else (4, 8, 16)
    kind = "ConvTranspose" if "transpose" in name else "Conv"
    sizes = ", ".join([str(edge)] * dimensions)
    return _Form(
        input=f"torch.randn({batch}, {channels}, {sizes})",
        output="",
        vector=f"{2 * channels}, {', '.join(['1'] * dimensions)}",
        init=f"        self.conv = nn.{kind}{dimensions}d({channels}, {2 * channels}, 3, padding=1)\n",
        num_dimensions=dimensions,
    )


def _statement(operation: Operation, form: _Form) -> str:
    return operation.torch.replace("{n}", str(form.num_dimensions))


def _has_second(sketch: Sketch) -> bool:
    return any(operation.argument == "tensor" for operation in sketch.operations)


def sketch_of(task: Task) -> Sketch | None:
    """The sketch that a task was generated from, read off its docstring; `None` for any other task."""
    match = _TITLE.search(task.source)
    names = tuple(match["names"].split(", ")) if match else ()
    if not names or any(name not in BY_NAME for name in names) or len(task.contract.inputs[0].shape) != 2:
        return None
    return Sketch(names, *task.contract.inputs[0].shape)


def as_task(sketch: Sketch, device: DeviceKind) -> Task:
    """A light sketch as a prompt sees it, without running anything: for the warm start's prompts alone.

    It has no graph and no file, so it can't be judged. Raises `ValueError` for a sketch with a heavy operation.
    """
    if sketch.operations[0].kind == "heavy":
        raise ValueError(f"{sketch.sequence} has to be lowered by the reference program")
    size, count = (sketch.rows, sketch.columns), 2 if _has_second(sketch) else 1
    is_reduction = any(operation.kind == "reduce" for operation in sketch.operations)
    real = Domain(kind="real", low=-5.0, high=5.0)
    inputs = tuple(TensorSpec(shape=size, dtype="float32", strides=(size[1], 1), domain=real) for _ in range(count))
    output = TensorSpec(shape=size[:1] if is_reduction else size, dtype="float32", strides=(1,))
    source = module_source(sketch, device)
    return Task(
        name=sketch.task_name,
        digest=hashlib.sha256(source.encode()).hexdigest(),
        target=Target(path="", class_name="Model", python=""),
        source=source[: source.index("\n\n\ndef get_inputs")].replace("\n\n\nclass", "\n\nclass"),
        init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple", items=tuple(Tree(kind="tensor", index=index) for index in range(count))),
        outputs=Tree(kind="tensor", index=0),
        output_specs=(output if is_reduction else replace(output, strides=(size[1], 1)),),
        parameters=tuple(
            ParameterSpec(name=name, shape=(sketch.columns,), dtype="float32", kind="parameter")
            for name in ("bias", "gain")
            if name in sketch.names
        ),
        contract=Contract(device=device, inputs=inputs),
        graph=None,
    )


def write_tasks(sketches: Collection[Sketch], device: DeviceKind, folder: Path) -> list[Path]:
    """One file a sketch, named by its sequence; returns their paths in order."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for sketch in sketches:
        path = folder / f"{sketch.task_name}.py"
        path.write_text(module_source(sketch, device), encoding="utf-8")
        paths.append(path)
    return paths
