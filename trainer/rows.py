"""Trajectories -> training rows: every turn one sample, in fixed slots of trajectories × turns a task.

The slots are fixed because every rank has to do the same number of micro-batches (a rank with fewer hangs the
others under sharding). What a trajectory that ended early leaves empty is a filler: no tokens in the loss, no
place in the group's mean, advantage 0. Pure values: no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kevin_cli.types import Message, Trajectory, Turn, Verdict
from trainer.config import Learn, Reward
from trainer.returns import discounted, is_flat, leave_one_out, per_turn, pooled, whitened

EncodePrompt = Callable[[Sequence[Message]], tuple[int, ...]]
ScoreOf = Callable[[Verdict], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One training sample."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Of the sampler, one for each completion token; zeros where the engine has none."""
    return_: float | None
    """`None` for a filler, and for a turn that could not be judged."""
    advantage: float
    counts: bool
    """Whether its tokens are in the loss."""
    trajectory: int
    turn: int

    @property
    def num_tokens(self) -> int:
        return len(self.completion_ids) if self.counts else 0


def filler(end_id: int, trajectory: int, turn: int) -> Row:
    """One token to condition on and one that counts for nothing: tensors must not be empty."""
    return Row(
        prompt_ids=(end_id,),
        completion_ids=(end_id,),
        logprobs=(0.0,),
        return_=None,
        advantage=0.0,
        counts=False,
        trajectory=trajectory,
        turn=turn,
    )


def group_rows(
    trajectories: Sequence[Trajectory],
    *,
    num_turns: int,
    score: ScoreOf,
    reward: Reward,
    learn: Learn,
    encode: EncodePrompt,
    end_id: int,
) -> list[Row]:
    """The rows of one task: `len(trajectories) × num_turns`, trajectory by trajectory."""
    returns = [
        discounted([_score(turn, score) for turn in trajectory.turns], reward.gamma, reward.form)
        for trajectory in trajectories
    ]
    advantages = _advantages(returns, learn)
    rows = []
    for place, trajectory in enumerate(trajectories):
        for number in range(num_turns):
            if number < len(trajectory.turns) and _is_sample(trajectory.turns[number]):
                turn = trajectory.turns[number]
                row = _row(turn, returns[place][number], advantages[place][number], encode, place)
                rows.append(_without_cut_off(row, turn) if learn.mask_cut_off else row)
            else:
                rows.append(filler(end_id, place, number))
    return rows


def whiten(rows: Sequence[Row]) -> list[Row]:
    """The accidental second normalisation over the whole batch (`returns.whitened`); fillers stay at 0."""
    real = [row for row in rows if row.counts]
    values = iter(whitened([row.advantage for row in real], [row.num_tokens for row in real]))
    return [replace(row, advantage=next(values)) if row.counts else row for row in rows]


def _score(turn: Turn, score: ScoreOf) -> float | None:
    return score(turn.verdict) if _is_sample(turn) else None


def _is_sample(turn: Turn) -> bool:
    """Whether the policy said anything that can be learned from."""
    return bool(turn.completion.token_ids) and turn.completion.finish_reason in ("stop", "length")


def _advantages(returns: Sequence[Sequence[float | None]], learn: Learn) -> list[list[float | None]]:
    if learn.drop_equal_groups and is_flat(returns):
        return [[None] * len(trajectory) for trajectory in returns]
    if learn.advantage == "leave_one_out":
        return leave_one_out(returns)
    compare = pooled if learn.advantage == "pooled" else per_turn
    return compare(returns, divide=learn.divide_by_std)


def _row(turn: Turn, return_: float | None, advantage: float | None, encode: EncodePrompt, trajectory: int) -> Row:
    ids = turn.completion.token_ids or ()
    return Row(
        prompt_ids=encode(turn.completion.messages),
        completion_ids=ids,
        logprobs=turn.completion.logprobs or (0.0,) * len(ids),
        return_=return_,
        advantage=advantage or 0.0,
        counts=advantage is not None,
        trajectory=trajectory,
        turn=turn.index,
    )


def _without_cut_off(row: Row, turn: Turn) -> Row:
    """Overlong answers taught nothing either way (DAPO, section 3.4): they keep their return, not their tokens."""
    return replace(row, counts=False, advantage=0.0) if turn.completion.finish_reason == "length" else row
