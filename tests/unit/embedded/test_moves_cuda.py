"""What CUDA searches begin with and try next, for each shape of kernel."""

from __future__ import annotations

from dataclasses import replace

from kevin_cli.policies.embedded.moves import Shape
from kevin_cli.policies.embedded.moves_cuda import HELD, cuda_starts
from kevin_cli.policies.embedded.plan import CudaPlan
from kevin_cli.policies.embedded.tuning import Search, Tried, next_plan
from kevin_cli.types import Outcome, Verdict

ROWS = Shape(num_rows=4096, num_columns=4096, has_reductions=True, has_kept=True, num_passes=2)
FLAT = Shape(num_rows=4096, num_columns=4096, has_reductions=False, has_kept=False)


def _plans(shape: Shape, count: int) -> list[CudaPlan]:
    """The first turns, if all are correct and none is faster."""
    search = Search(is_cpu=False, shape=shape, index=0, seed=0, text=repr)
    tried: list[Tried] = []
    while len(tried) < count and (choice := next_plan(tried, search)) is not None:
        tried.append(Tried(choice.plan, Verdict(outcome=Outcome.CORRECT, detail="")))
    plans = [item.plan for item in tried]
    assert all(isinstance(plan, CudaPlan) for plan in plans)
    return plans  # type: ignore[return-value]


def test_loads_are_sixteen_bytes_wide_whatever_the_type() -> None:
    for shape in (ROWS, FLAT):
        widths = [_plans(replace(shape, item_bytes=size), 1)[0].vector * size for size in (2, 4, 8)]
        assert widths == [16, 16, 16]


def test_a_thread_asks_for_about_four_vectors_before_it_uses_one() -> None:
    assert [_plans(replace(FLAT, num_loads=count), 1)[0].items for count in (1, 2, 3, 4)] == [4, 2, 1, 1]


def test_small_kernels_are_spread_over_the_device_rather() -> None:
    assert _plans(replace(FLAT, num_rows=16), 1)[0].items == 1


def test_short_rows_share_a_block_and_a_warp() -> None:
    for columns in (16, 64, 100, 1000):
        plan = _plans(replace(ROWS, num_columns=columns), 1)[0]
        assert plan.threads <= 32
        assert plan.threads * plan.rows % 32 == 0


def test_a_row_that_one_block_cannot_hold_is_tried_in_the_smallest_cluster_that_can() -> None:
    for columns, cluster in ((32_000, 2), (60_000, 4), (131_072, 8)):
        first, second = _plans(replace(ROWS, num_columns=columns), 2)
        assert (first.cluster, second.cluster) == (1, cluster)
        assert -(-columns // (second.threads * cluster)) <= HELD


def test_rows_that_nothing_holds_are_taken_a_few_at_a_time() -> None:
    _, second = _plans(replace(ROWS, num_columns=524_288), 2)
    assert (second.cluster, second.threads, second.split) == (8, 1024, 1)


def test_few_long_rows_are_shared_by_many_blocks() -> None:
    plan = _plans(replace(ROWS, num_rows=4, num_columns=1 << 22), 1)[0]
    assert plan.split > 64


def test_convolutions_are_tried_channels_last_before_anything_else() -> None:
    first, second, *others = _plans(replace(FLAT, has_convolutions=True), 4)
    assert not first.channels_last
    assert second == replace(first, channels_last=True)
    assert not any(plan.channels_last for plan in others)


def test_large_products_begin_with_the_widest_tile() -> None:
    wide, narrow = (cuda_starts(replace(ROWS, num_tiles=count))[0].plan for count in (256, 2))
    assert (wide, narrow) == (CudaPlan(vector=8), CudaPlan(vector=4))
