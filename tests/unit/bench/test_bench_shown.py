"""The table in 80 columns, losses like wins, and the numbers below it."""

from __future__ import annotations

import io
from pathlib import Path

from bench_samples import row
from rich.console import Console

from kevin_cli.refine.bench_rows import summarise
from kevin_cli.show.bench import bench_block, row_line

ROWS = [
    row("level1/1_Square_matrix_multiplication_", 0.71),
    row("level1/23_Softmax", 1.52),
    row("level2/40_Matmul_Scaling_ResidualAdd", 12.25),
    row("level2/41_Gemm_BatchNorm_GELU_ReLU"),
    row("level2/80_Gemm_Max_Subtract_GELU", outcome="no_candidate"),
    row("level3/1_MLP", outcome="not_loaded"),
]


def shown(rows: list) -> str:  # type: ignore[type-arg]
    console = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False)
    console.print(bench_block(rows, summarise(rows), Path(".kevin/bench/rows.jsonl")), highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_it_fits_eighty_columns_and_cuts_no_number() -> None:
    text = shown(ROWS)
    assert max(map(len, text.splitlines())) <= 80
    assert "0.71 ± 0.01" in text
    assert "12.25 ± 0.2" in text


def test_the_numbers_are_said_with_what_they_leave_out() -> None:
    text = shown(ROWS)
    assert "3 of 5 tasks correct; 1 left out: not loaded" in text
    assert "fast_0 0.60   fast_1 0.40   fast_1.5 0.40   fast_2 0.20" in text
    assert "geometric mean 2.36 over the correct, 1.68 over all (unsolved count 1)" in text
    assert "speedups against the fastest baseline" in text
    assert "torch 2.13.0+cpu" in text


def test_why_a_row_failed_is_said() -> None:
    assert "level2/41_Gemm_BatchNorm_GELU_ReLU: output 0: RMS error" in shown(ROWS)


def test_several_candidates_of_a_task_are_told_apart() -> None:
    text = shown([row("softmax", 1.2, candidate="softmax/a.py"), row("softmax", 1.4, candidate="softmax/b.py")])
    assert "softmax a.py" in text
    assert "softmax b.py" in text


def test_a_row_of_an_earlier_sitting_says_when_it_was_judged() -> None:
    assert "(of 2026-11-30)" in row_line(row("a", 1.5), is_new=False).plain
    assert "(of" not in row_line(row("a", 1.5), is_new=True).plain
