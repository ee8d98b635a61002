"""Which plan a turn tries, and why: a bounded search over the plan's own parameters, led by the verdicts.

Coordinate descent: from the best correct plan so far, change one parameter at a time, in the order in which
changes usually pay. A turn that fails or is not faster is backed out, since the next change starts from the best
plan again. No state is kept: the plans of earlier turns stand in their candidates, so a resumed or copied
trajectory goes on as it would have. The plans of a task are shared out among the trajectories of a run, so that no
two propose the same. Deterministic in the task, the seed and the verdicts.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from kevin_cli.policies.embedded.moves import Choice, Shape
from kevin_cli.policies.embedded.moves_cpu import SAFEST, cpu_moves, cpu_starts
from kevin_cli.policies.embedded.moves_cuda import cuda_moves, cuda_starts, safest
from kevin_cli.policies.embedded.plan import CpuPlan, Plan
from kevin_cli.types import Outcome, Verdict

FLAT_GAIN = 1.01
"""A speedup has to be this many times the best one to count as better."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One earlier turn."""

    plan: Plan
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What fixes a trajectory's search, apart from the verdicts."""

    is_cpu: bool
    shape: Shape
    index: int
    """Of the trajectory."""
    num_trajectories: int = 1
    """How many share the plans of the task."""
    seed: int
    """Leads the order of pairs of changes."""
    text: Callable[[Plan], str]
    """The source that a plan gives: plans with the same source are the same turn."""
    is_taken: Callable[[str], bool] = lambda text: False
    """Whether another trajectory of this run has proposed a source already (copies in a beam share their plans)."""
    bound: str = ""
    """What limits the best kernel, in words: `memory-bound at 61 % of the limit`; empty when unknown."""

    def starts(self) -> Iterator[Choice]:
        """Where trajectories begin, the most promising first, each a different source."""
        firsts = cpu_starts(self.shape) if self.is_cpu else cuda_starts(self.shape)
        moves = (Choice(plan, f"Fuses everything. {why}") for plan, why in _moves(firsts[0].plan, self))
        seen: set[str] = set()
        for choice in itertools.chain(firsts, moves):
            text = self.text(choice.plan)
            if text not in seen:
                seen.add(text)
                yield choice

    def is_own(self, text: str) -> bool:
        """Whether a source is this trajectory's to propose; each has exactly one owner."""
        if self.num_trajectories == 1:
            return True
        firsts = [self.text(choice.plan) for choice in itertools.islice(self.starts(), self.num_trajectories)]
        digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        owner = firsts.index(text) if text in firsts else digest % self.num_trajectories
        return owner == self.index % self.num_trajectories


def next_plan(history: Sequence[Tried], search: Search) -> Choice | None:
    """The plan for the next turn, given every earlier one; `None` when there is nothing new to try."""
    best = best_of(history)
    past = _past(history, best, search.bound) if history else ""
    seen = {search.text(tried.plan) for tried in history}
    for choice in _candidates(history, best, search):
        text = search.text(choice.plan)
        if text not in seen and search.is_own(text) and not search.is_taken(text):
            return Choice(choice.plan, f"{past}{choice.reason}")
    return None


def _candidates(history: Sequence[Tried], best: Tried | None, search: Search) -> Iterator[Choice]:
    if not history:
        yield from search.starts()
        return
    plainest: Plan = SAFEST if search.is_cpu else safest(search.shape)
    if best is None:
        yield Choice(plainest, "Falls back to the plainest kernel.")
    for plan, why in _moves(best.plan if best else plainest, search):
        yield Choice(plan, why)
    yield from search.starts()


def speed(verdict: Verdict) -> float:
    """Speedup against eager (always measured), or 0 without one."""
    found = verdict.against("eager") or verdict.against_fastest()
    return found.median if found and verdict.is_correct else 0.0


def best_of(history: Sequence[Tried]) -> Tried | None:
    """The fastest correct turn; an equal later one does not replace it."""
    best: Tried | None = None
    for tried in history:
        if tried.verdict.is_correct and (best is None or speed(tried.verdict) > FLAT_GAIN * speed(best.verdict)):
            best = tried
    return best


def _past(history: Sequence[Tried], best: Tried | None, bound: str) -> str:
    """What the last turn showed, in a clause; a turn that did not pay is said to be backed out."""
    last = history[-1]
    at = f", {bound}" if bound else ""
    if last.verdict.outcome is Outcome.INFRA:
        return "The last turn was not judged. "
    if not last.verdict.is_correct:
        return f"The last turn ended as {last.verdict.outcome}, so it is backed out. "
    if last is best:
        return f"{speed(last.verdict):.2f} times eager is the best so far{at}. "
    return f"The last change gave {speed(last.verdict):.2f} times eager, no gain, and is backed out{at}. "


def _moves(base: Plan, search: Search) -> Iterator[tuple[Plan, str]]:
    """Changes of one parameter in the order of their promise; then seeded pairs of changes."""
    shape = search.shape
    single: list[tuple[Plan, str]]
    single = [*cpu_moves(base, shape)] if isinstance(base, CpuPlan) else [*cuda_moves(base, shape)]
    yield from single
    pairs = [(one, other) for one in single for other in single if one is not other]
    random.Random(search.seed).shuffle(pairs)
    for (one, why), (other, _) in pairs:
        both = _merged(base, one, other)
        if both not in (base, one, other):
            yield both, f"{why} Together with another change that was tried alone."


def _merged(base: Plan, one: Plan, other: Plan) -> Plan:
    changes: dict[str, Any] = {}
    for plan in (one, other):
        for field in fields(base):
            if getattr(plan, field.name) != getattr(base, field.name):
                changes[field.name] = getattr(plan, field.name)
    return replace(base, **changes)
