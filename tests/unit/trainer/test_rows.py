"""Trajectories become training rows in fixed slots: every turn counts, every filler counts for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from train_samples import INFRA, WRONG, correct, trajectory, turn

from kevin_cli.types import Message, Trajectory
from trainer.config import Learn, Reward
from trainer.rollouts import score_of
from trainer.rows import Row, group_rows, whiten

END = 1


def encode(messages: Sequence[Message]) -> tuple[int, ...]:
    return tuple(len(message.content) for message in messages)


def rows(trajectories: Sequence[Trajectory], num_turns: int = 3, **learn: Any) -> list[Row]:
    return group_rows(
        trajectories,
        num_turns=num_turns,
        score=partial(score_of, reward=Reward(), report=None),
        reward=Reward(),
        learn=Learn(num_batches=1, **learn),
        encode=encode,
        end_id=END,
    )


def test_every_turn_is_one_row_with_its_own_prompt_and_return() -> None:
    made = rows([trajectory(0, WRONG, correct(2.0), WRONG), trajectory(1, WRONG, WRONG, correct(1.0))])
    assert [row.return_ for row in made] == pytest.approx([0.92, 2.3, 0.0, 0.208, 0.52, 1.3])
    assert [row.prompt_ids for row in made[:3]] == [(13,), (19,), (25,)]
    assert all(row.counts for row in made)


def test_advantages_of_a_group_have_no_mean() -> None:
    made = rows([trajectory(0, WRONG, correct(2.0), WRONG), trajectory(1, WRONG, WRONG, correct(1.0))])
    assert sum(row.advantage for row in made) == pytest.approx(0.0)


def test_no_turn_that_differs_from_its_group_has_advantage_zero() -> None:
    """Earlier turns were once trained with advantage 0 elsewhere (SkyRL #1492)."""
    made = rows([trajectory(0, WRONG, WRONG, correct(2.0)), trajectory(1, WRONG, WRONG, WRONG)])
    assert all(abs(row.advantage) > 1e-3 for row in made)


def test_a_trajectory_that_ended_early_is_filled_up_with_rows_outside_the_mean() -> None:
    short = rows([trajectory(0, correct(2.0)), trajectory(1, WRONG, correct(1.0), WRONG)])
    assert len(short) == 6
    assert [row.counts for row in short] == [True, False, False, True, True, True]
    assert short[1].return_ is None
    assert sum(row.advantage for row in short) == pytest.approx(0.0)
    assert short[1].num_tokens == 0


def test_a_fault_of_ours_teaches_nothing_and_shifts_nobody() -> None:
    made = rows([trajectory(0, INFRA, WRONG), trajectory(1, WRONG, correct(1.0))], num_turns=2)
    assert not made[0].counts
    assert made[0].advantage == 0.0
    assert sum(row.advantage for row in made) == pytest.approx(0.0)


def test_a_group_without_spread_can_be_left_out() -> None:
    kept = rows([trajectory(0, WRONG), trajectory(1, WRONG)], num_turns=1)
    dropped = rows([trajectory(0, WRONG), trajectory(1, WRONG)], num_turns=1, drop_equal_groups=True)
    assert [row.counts for row in kept] == [True, True]
    assert [row.counts for row in dropped] == [False, False]


def test_a_completion_that_was_never_given_is_a_filler() -> None:
    lost = Trajectory(task=trajectory(0).task, index=0, turns=(turn(0, WRONG, ids=(), reason="error"),))
    made = rows([lost, trajectory(1, correct(1.0))], num_turns=1)
    assert [row.counts for row in made] == [False, True]


def test_an_answer_that_was_cut_off_can_be_masked_but_keeps_its_return() -> None:
    cut = Trajectory(task=trajectory(0).task, index=0, turns=(turn(0, WRONG, reason="length"),))
    made = rows([cut, trajectory(1, correct(1.0))], num_turns=1, mask_cut_off=True)
    assert [row.counts for row in made] == [False, True]
    assert made[0].return_ == 0.0
    assert made[1].advantage > 0


def test_whitening_leaves_fillers_at_zero() -> None:
    made = whiten(rows([trajectory(0, correct(2.0)), trajectory(1, WRONG, correct(1.0), WRONG)]))
    assert [row.advantage for row in made if not row.counts] == [0.0, 0.0]
    assert sum(row.advantage for row in made) == pytest.approx(0.0)
