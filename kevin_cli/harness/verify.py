"""The integrity pass: is what the candidate computes right, on inputs that nobody could prepare for?

Seeds come from the operating system after the worker is loaded and warm. Each round is strictly one
call: the reference draws inputs and poisons the output, the candidate answers, and only then is the
reference computed and the answer compared. Rounds differ in the values of the inputs; two of them have
weights that the candidate has never seen; the first is repeated at the end, since a kernel that keeps
state between calls is wrong too.

Not promised: that a kernel is right outside the contract (other shapes, types, gradients).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.weights import Pairs
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.records import from_plain
from kevin_cli.types import Outcome, OutputCheck

SEED_BITS = 48
USER = "user"
VALUE_STRATA = ("normal", "uniform", "heavy", "offset", "small", "large")
TAMPERING = ("redzone", "inputs")
"""Kinds of failed checks which say that memory was changed that a candidate must not touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One call of the integrity pass."""

    stratum: str
    seed: int
    fresh_weights: int | None = None
    """Seed of the weights that are loaded before this round; `None`: the user's own."""
    note: str = ""
    """What a failure in this round means."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What the pass found out; only made when every round passed."""

    checks: tuple[OutputCheck, ...]
    seeds: tuple[int, ...]


def secret_seed() -> int:
    """From the operating system; nothing in a candidate's process can foresee it."""
    return secrets.randbits(SEED_BITS)


def plan_rounds(*, has_weights: bool) -> tuple[Round, ...]:
    """A, the value strata, two rounds with new weights, A again: at least nine secret seeds."""
    first = Round(stratum=USER, seed=secret_seed())
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
    return (first, *strata[:3], *fresh, *strata[3:], again)


async def verify(
    reference: ReferenceSide, worker: WorkerSide, pairs: Pairs, num_slots: int, *, has_weights: bool
) -> Verified:
    """Run every round. Raises `CandidateFault` at the first that fails."""
    rounds = plan_rounds(has_weights=has_weights)
    checks: tuple[OutputCheck, ...] = ()
    loaded: int | None = None
    for turn in rounds:
        if turn.fresh_weights != loaded:
            await load_weights(reference, worker, pairs, turn.fresh_weights)
            loaded = turn.fresh_weights
        answer = await _one_call(reference, worker, turn, secrets.randbelow(num_slots))
        _raise_if_failed(answer, turn)
        checks = _worse(checks, from_plain(tuple[OutputCheck, ...], answer["checks"]))
    return Verified(checks, tuple(turn.seed for turn in rounds[:-1]))


async def load_weights(reference: ReferenceSide, worker: WorkerSide, pairs: Pairs, seed: int | None) -> None:
    """New weights for both sides; `None` brings the user's own back."""
    await reference.set_weights(seed)
    await worker.weights(pairs)


async def _one_call(reference: ReferenceSide, worker: WorkerSide, turn: Round, slot: int) -> dict[str, Any]:
    await reference.draw(slot, turn.seed, turn.stratum)
    await worker.run([slot])
    return await reference.check(slot)


def _raise_if_failed(answer: dict[str, Any], turn: Round) -> None:
    if answer["passed"]:
        return
    where = "your own inputs" if turn.stratum == USER else f"inputs of the kind {turn.stratum!r}"
    detail = f"{answer['detail']} (on {where}{', ' + turn.note if turn.note else ''})"
    raise CandidateFault(Outcome.TAMPERED if answer["kind"] in TAMPERING else Outcome.MISMATCH, detail)


def _worse(before: Sequence[OutputCheck], now: Sequence[OutputCheck]) -> tuple[OutputCheck, ...]:
    """For each output the round in which it came closest to its bound."""
    if not before:
        return tuple(now)
    return tuple(max(pair, key=_closeness) for pair in zip(before, now, strict=True))


def _closeness(check: OutputCheck) -> float:
    return check.rms_error / check.bound if check.bound > 0 else check.rms_error
