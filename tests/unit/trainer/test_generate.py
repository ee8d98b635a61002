"""Generated tasks: new, split for ever, runnable; and plain kernels for the light ones."""

from __future__ import annotations

import ast
import itertools
import random

import pytest

from kevin_cli.types import DeviceKind
from trainer.generate import Sketch, as_task, draw, is_held_out, module_source, sketch_of
from trainer.operations import BY_NAME, is_idle
from trainer.solutions import answer, draw_manner, program

CPU, CUDA = DeviceKind.CPU, DeviceKind.CUDA


def test_the_same_seed_draws_the_same_tasks_and_another_one_others() -> None:
    first = draw(20, seed=1, device=CPU, held_out=False)
    assert first == draw(20, seed=1, device=CPU, held_out=False)
    assert first != draw(20, seed=2, device=CPU, held_out=False)


def test_no_sequence_comes_twice_and_none_that_is_known() -> None:
    first = draw(200, seed=1, device=CPU, held_out=False)
    assert len({sketch.sequence for sketch in first}) == 200
    known = {sketch.sequence for sketch in first}
    later = draw(50, seed=1, device=CPU, held_out=False, known=known)
    assert not known & {sketch.sequence for sketch in later}


def test_held_out_sequences_never_meet_the_others_whatever_the_seed() -> None:
    held = {sketch.sequence for seed in range(5) for sketch in draw(50, seed=seed, device=CUDA, held_out=True)}
    rest = {sketch.sequence for seed in range(5) for sketch in draw(50, seed=seed, device=CPU, held_out=False)}
    assert not held & rest
    assert all(is_held_out(sequence.split("-")) for sequence in held)


@pytest.mark.parametrize("family", ["light", "heavy", "mixed"])
def test_a_sequence_has_at_most_one_heavy_operation_and_nothing_idle(family: str) -> None:
    for sketch in draw(100, seed=3, device=CPU, held_out=False, family=family):  # type: ignore[arg-type]
        operations = sketch.operations
        assert sum(operation.kind == "heavy" for operation in operations) == (family == "heavy") or family == "mixed"
        assert all(operation.kind != "heavy" for operation in operations[1:])
        for before, after in itertools.pairwise(operations):
            assert not is_idle(after.name, before.range), sketch.sequence
            assert not (before.saturates and after.saturates), sketch.sequence


@pytest.mark.parametrize("family", ["light", "heavy"])
def test_generated_modules_run_and_their_outputs_differ_from_place_to_place(family: str) -> None:
    torch = pytest.importorskip("torch")
    for sketch in draw(12, seed=4, device=CPU, held_out=False, family=family):  # type: ignore[arg-type]
        names: dict[str, object] = {}
        exec(module_source(sketch, CPU), names)
        with torch.no_grad():
            output = names["Model"]()(*names["get_inputs"]())  # type: ignore[operator]
        assert torch.isfinite(output).all(), sketch.sequence
        assert output.std() > 1e-6, sketch.sequence


def test_a_sketch_is_read_back_from_its_task() -> None:
    for sketch in draw(30, seed=5, device=CUDA, held_out=False):
        assert sketch_of(as_task(sketch, CUDA)) == sketch


def test_a_heavy_sketch_has_no_task_without_the_reference_and_no_plain_kernel() -> None:
    (sketch,) = draw(1, seed=1, device=CPU, held_out=False, family="heavy")
    with pytest.raises(ValueError, match="reference program"):
        as_task(sketch, CPU)
    with pytest.raises(ValueError, match="no plain kernel"):
        answer(sketch, CPU, draw_manner(sketch, random.Random(0)))


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_every_operation_of_a_light_sketch_is_in_its_plain_kernel(device: DeviceKind) -> None:
    for number, sketch in enumerate(draw(60, seed=6, device=device, held_out=False)):
        source = program(sketch, device, draw_manner(sketch, random.Random(number)))
        ast.parse(source)
        for operation in sketch.operations:
            if operation.cuda:
                assert f"v = {operation.cuda};" in source, sketch.sequence


def test_plain_kernels_differ_in_manner() -> None:
    sketch = Sketch(("tanh", "double", "bias"), 1024, 1024)
    programs = {program(sketch, CUDA, draw_manner(sketch, random.Random(seed))) for seed in range(300)}
    assert len(programs) == 18  # fused: 6 blocks × 2 widths; one kernel for each operation: 6 blocks


def test_names_of_operations_are_unambiguous() -> None:
    assert len(BY_NAME) == 22 + 3 + 3 + 2 + 7
