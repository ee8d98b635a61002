"""What one batch of rollouts looked like, in numbers, and the published early signs of collapse.

Pure values. Kevin's runs ended in junk: the share of reasonings that do not begin with "Okay," (QwQ's always do) rose
some fifteen steps before, and repetition came with it (arXiv 2507.11948, section 6 and Fig. 7). A run that shows a
sign for several batches in a row is stopped with what it has; nothing is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from kevin_cli.types import Outcome, Turn
from trainer.config import Reward, Watch
from trainer.returns import is_lazy
from trainer.rollouts import Group, score_of

OKAY = "Okay,"
WINDOW_TOKENS = 16
REPEATS = 0.5
"""A completion repeats itself when so large a share of its windows was there before."""
DETAIL_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNumbers:
    """The turns of one index, over all trajectories of all tasks."""

    turn: int
    num_turns: int
    reward: float
    correct: float
    speedup: float | None
    """Mean over the correct ones, against the reward's baseline."""
    num_tokens: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNumbers:
    """One batch; `num_infra` turns are in no mean."""

    num_turns: int
    reward: float
    correct: float
    speedup: float | None
    by_turn: tuple[TurnNumbers, ...]
    outcomes: dict[str, int]
    caught: dict[str, int]
    """What rejected and tampering candidates were caught at, in the judge's words."""
    cut_off: float
    not_okay: float
    repetition: float
    flat_groups: float
    """Share of tasks whose trajectories all got the same score at every turn."""
    num_infra: int
    num_candidates: int
    num_unique: int


Scored = tuple[Turn, float | None]


def numbers(groups: Sequence[Group], reward: Reward) -> BatchNumbers:
    by_group = [[_scored(turn, group, reward) for t in group.trajectories for turn in t.turns] for group in groups]
    scored = [entry for entries in by_group for entry in entries]
    turns = [turn for turn, _ in scored]
    judged = [entry for entry in scored if entry[0].verdict.outcome is not Outcome.INFRA]
    largest = max((turn.index for turn in turns), default=-1)
    candidates = [(group.task.digest, digest) for group in groups for digest in _digests(group)]
    whole = _turn_numbers(-1, judged)
    return BatchNumbers(
        num_turns=len(turns),
        reward=whole.reward,
        correct=whole.correct,
        speedup=whole.speedup,
        by_turn=tuple(
            _turn_numbers(index, [entry for entry in judged if entry[0].index == index]) for index in range(largest + 1)
        ),
        outcomes=dict(Counter(turn.verdict.outcome.value for turn in turns)),
        caught=dict(Counter(_caught(turns, reward))),
        cut_off=_share(turn.completion.finish_reason == "length" for turn in turns),
        not_okay=not_okay(turn.completion.text for turn in turns),
        repetition=_share(repeats(turn.completion.token_ids or ()) for turn in turns),
        flat_groups=_share(len({score for _, score in entries}) <= 1 for entries in by_group),
        num_infra=len(turns) - len(judged),
        num_candidates=len(candidates),
        num_unique=len(set(candidates)),
    )


def _scored(turn: Turn, group: Group, reward: Reward) -> Scored:
    return turn, score_of(turn.verdict, reward, group.report)


def not_okay(texts: Iterable[str]) -> float:
    """The share of reasonings that begin with something else than "Okay," (the paper's Not-Okay Ratio)."""
    return _share(not text.lstrip().removeprefix("<think>").lstrip().startswith(OKAY) for text in texts)


def repeats(token_ids: Sequence[int]) -> bool:
    """Whether most windows of sixteen tokens were there before in the same completion."""
    windows = [tuple(token_ids[at : at + WINDOW_TOKENS]) for at in range(len(token_ids) - WINDOW_TOKENS + 1)]
    return bool(windows) and 1.0 - len(set(windows)) / len(windows) > REPEATS


def sign_of_collapse(batches: Sequence[BatchNumbers], watch: Watch) -> str:
    """What the last `patience_batches` batches all show, in words; empty when they do not."""
    recent = batches[-watch.patience_batches :]
    if len(recent) < watch.patience_batches or not watch.stop_on_collapse:
        return ""
    if all(batch.repetition > watch.max_repetition for batch in recent):
        return f"{recent[-1].repetition:.0%} of the completions repeat themselves"
    if all(batch.not_okay > watch.max_not_okay for batch in recent):
        return f"{recent[-1].not_okay:.0%} of the reasonings do not begin with {OKAY!r}"
    return ""


def _turn_numbers(index: int, entries: Sequence[Scored]) -> TurnNumbers:
    turns = [turn for turn, _ in entries]
    scores = [score for _, score in entries if score is not None]
    found = [turn.verdict.against("eager") for turn in turns]
    speedups = [comparison.median for comparison in found if comparison]
    return TurnNumbers(
        turn=index,
        num_turns=len(turns),
        reward=fmean(scores) if scores else 0.0,
        correct=_share(turn.verdict.is_correct for turn in turns),
        speedup=fmean(speedups) if speedups else None,
        num_tokens=fmean(turn.completion.num_completion_tokens or 0 for turn in turns) if turns else 0.0,
    )


def _digests(group: Group) -> list[str]:
    turns = (turn for trajectory in group.trajectories for turn in trajectory.turns)
    return [turn.candidate.digest for turn in turns if turn.candidate]


def _caught(turns: Iterable[Turn], reward: Reward) -> Iterable[str]:
    for turn in turns:
        if turn.verdict.is_correct and is_lazy(turn.verdict, reward.min_own_share):
            yield f"lazy: own kernels take less than {reward.min_own_share:.0%} of the device time"
        if turn.verdict.outcome in (Outcome.REJECTED, Outcome.TAMPERED):
            yield f"{turn.verdict.outcome.value}: {turn.verdict.detail[:DETAIL_CHARS]}"


def _share(values: Iterable[bool]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0
