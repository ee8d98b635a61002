"""The integrity pass: is what the candidate computes right, on inputs that nobody could prepare for?

Seeds come from the operating system after the worker is loaded and warm. Each round is strictly one
call: the reference draws inputs and poisons the output, the candidate answers, and only then is the
reference computed and the answer compared. Rounds differ in the values of the inputs; some change one
element of the inputs before in place; two have weights that the candidate has never seen; the first is
repeated at the end, since a kernel that keeps state between calls is wrong too.

What comes after the rounds is in `history.py`: repeats, a second instance, a watched call, a soak.

Not promised: that a kernel is right outside the contract (other shapes, types, gradients).
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.weights import Pairs
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.records import from_plain
from kevin_cli.types import Nans, Outcome, OutputCheck, Watched

SEED_BITS = 48
USER = "user"
VALUE_STRATA = ("normal", "uniform", "heavy", "offset", "small", "large", "sparse", "ties", "outliers")
NUM_MUTATIONS = 3
SLOW_ROUND_S = 0.4
"""From here on (inputs of some 50 MB on two cores) only some kinds of values are shown, drawn in secret."""
NUM_SLOW_STRATA = 3
TAMPERING = ("redzone", "inputs")
"""Kinds of failed checks which say that memory was changed that a candidate must not touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One call of the integrity pass."""

    stratum: str
    seed: int
    mutates: bool = False
    """The inputs of the round before, with one element changed in place: same memory, another answer."""
    fresh_weights: int | None = None
    """Seed of the weights that are loaded before this round; `None`: the user's own."""
    note: str = ""
    """What a failure in this round means."""


@dataclass(slots=True, kw_only=True)
class Pass:
    """One worker's integrity pass: whom it asks, and what it has found so far."""

    reference: ReferenceSide
    worker: WorkerSide
    pairs: Pairs
    num_slots: int
    has_weights: bool
    checks: tuple[OutputCheck, ...] = ()
    seeds: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    watched: Watched | None = None
    nans: Nans | None = None
    first_round_s: float = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether one round takes so long that fewer have to do."""
        return self.first_round_s > SLOW_ROUND_S

    async def load_weights(self, seed: int | None, *, instance: int = 0) -> None:
        """New weights for the reference and for one instance; `None` brings the user's own back."""
        await self.reference.set_weights(seed)
        await self.worker.weights(self.pairs, instance=instance)

    async def draw(self, stratum: str = USER, *, seed: int | None = None) -> int:
        """Fresh inputs in a slot that is drawn too; a seed that is not given is drawn and noted."""
        slot = secrets.randbelow(self.num_slots)
        await self.reference.draw(slot, self.new_seed() if seed is None else seed, stratum)
        return slot

    def new_seed(self) -> int:
        self.seeds.append(secret_seed())
        return self.seeds[-1]

    async def check(self, slot: int, where: str) -> None:
        """Compare the answer in a slot. Raises `CandidateFault` when it is wrong."""
        self.take(await self.reference.check(slot), where)

    def take(self, answer: dict[str, Any], where: str) -> None:
        """Keep what a comparison found. Raises `CandidateFault` when it found something wrong."""
        raise_if_failed(answer, where)
        self.checks = _worse(self.checks, from_plain(tuple[OutputCheck, ...], answer["checks"]))


def secret_seed() -> int:
    """From the operating system; nothing in a candidate's process can foresee it."""
    return secrets.randbits(SEED_BITS)


def plan_rounds(*, has_weights: bool) -> tuple[Round, ...]:
    """A, A with other elements, the value strata, two rounds with new weights, A again: ten secret seeds or more."""
    first = Round(stratum=USER, seed=secret_seed())
    changed = replace(first, mutates=True, note="after one element had changed in place")
    strata = [Round(stratum=stratum, seed=secret_seed()) for stratum in VALUE_STRATA]
    fresh = [
        Round(
            stratum=stratum,
            seed=secret_seed(),
            fresh_weights=secret_seed() if has_weights else None,
            note="after new weights were loaded" if has_weights else "",
        )
        for stratum in (USER, "normal")
    ]
    again = replace(first, note="when the first inputs came again after others")
    # An even number of rounds lies between the two, so the output is poisoned with the other pattern.
    return (first, *[changed] * NUM_MUTATIONS, *strata[:3], *fresh, *strata[3:], again)


def skipped_when_slow(rounds: Sequence[Round]) -> tuple[Round, ...]:
    """All but a few of the value strata, drawn anew each time; an even number, for the poison's sake."""
    strata = [turn for turn in rounds if turn.stratum in VALUE_STRATA and not turn.note and turn.fresh_weights is None]
    return tuple(random.SystemRandom().sample(strata, (len(strata) - NUM_SLOW_STRATA) // 2 * 2))


async def run_rounds(state: Pass) -> None:
    """Run every round. Raises `CandidateFault` at the first that fails."""
    rounds = plan_rounds(has_weights=state.has_weights)
    skipped = skipped_when_slow(rounds)
    loaded: int | None = None
    slot = 0
    start = time.monotonic()
    for turn in rounds:
        if state.is_slow and turn in skipped:
            continue
        if turn.fresh_weights != loaded:
            await state.load_weights(turn.fresh_weights)
            loaded = turn.fresh_weights
        if not turn.mutates:
            slot = await state.draw(turn.stratum, seed=turn.seed)
        elif not await state.reference.mutate(slot):
            continue
        await state.worker.run([slot])
        await state.check(slot, _where(turn))
        state.first_round_s = state.first_round_s or time.monotonic() - start
    state.seeds.extend(dict.fromkeys(turn.seed for turn in rounds))


async def load_weights(reference: ReferenceSide, worker: WorkerSide, pairs: Pairs, seed: int | None) -> None:
    """New weights for both sides; `None` brings the user's own back."""
    await reference.set_weights(seed)
    await worker.weights(pairs)


def _where(turn: Round) -> str:
    where = "your own inputs" if turn.stratum == USER else f"inputs of the kind {turn.stratum!r}"
    return f"on {where}{', ' + turn.note if turn.note else ''}"


def raise_if_failed(answer: dict[str, Any], where: str) -> None:
    """Raises `CandidateFault` for an answer of the reference's that says that something is wrong."""
    if answer["passed"]:
        return
    outcome = Outcome.TAMPERED if answer["kind"] in TAMPERING else Outcome.MISMATCH
    raise CandidateFault(outcome, f"{answer['detail']} ({where})")


def _worse(before: Sequence[OutputCheck], now: Sequence[OutputCheck]) -> tuple[OutputCheck, ...]:
    """For each output the round in which it came closest to its bound."""
    if not before:
        return tuple(now)
    return tuple(max(pair, key=_closeness) for pair in zip(before, now, strict=True))


def _closeness(check: OutputCheck) -> float:
    return check.rms_error / check.bound if check.bound > 0 else check.rms_error
