"""NaN in the inputs: a kernel that swallows them is wrong, unless the user said that it may."""

import asyncio
from types import SimpleNamespace

import pytest

from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.history import NOT_FINITE, Habits, _special_values
from kevin_cli.harness.verify import Pass
from kevin_cli.types import Nans, Outcome, Rules

SWALLOWED = {"passed": False, "kind": "nan", "detail": "1 of 64 elements are wrong, e.g. [3]: 0 instead of nan"}
BESIDE = {"passed": False, "kind": "redzone", "detail": "it wrote beside its output"}
RIGHT = {"passed": True, "kind": "ok", "detail": ""}


class Reference:
    """Draws what it was told it can draw and answers what it was told to answer."""

    def __init__(self, answer, drawn="special"):
        self.answer, self.drawn = answer, drawn

    async def draw(self, slot, seed, stratum):
        return self.drawn

    async def check(self, slot):
        return self.answer


async def run(slots, **_):
    return 1


def examined(nans, answer, drawn="special"):
    worker = SimpleNamespace(run=run)
    state = Pass(reference=Reference(answer, drawn), worker=worker, pairs=(), num_slots=2, has_weights=False)
    asyncio.run(_special_values(state, Habits(task=None, rules=Rules.LIBRARY, nans=nans)))
    return state


def test_it_is_judged_unless_something_else_is_asked_for():
    assert Habits(task=None, rules=Rules.LIBRARY).nans is Nans.PROPAGATE


def test_a_kernel_that_swallows_them_is_wrong_and_the_verdict_says_how():
    with pytest.raises(CandidateFault, match="0 instead of nan") as fault:
        examined(Nans.PROPAGATE, SWALLOWED)
    assert fault.value.outcome is Outcome.MISMATCH
    assert fault.value.detail.startswith(NOT_FINITE)


def test_where_they_are_ignored_it_is_a_note():
    state = examined(Nans.IGNORE, SWALLOWED)
    assert state.nans is Nans.IGNORE
    assert state.notes == [f"{NOT_FINITE}: {SWALLOWED['detail']} (on inputs with NaN)"]


def test_what_touches_other_memory_is_never_ignored():
    with pytest.raises(CandidateFault) as fault:
        examined(Nans.IGNORE, BESIDE)
    assert fault.value.outcome is Outcome.TAMPERED


def test_the_verdict_claims_it_only_where_it_was_tried():
    assert examined(Nans.PROPAGATE, RIGHT).nans is Nans.PROPAGATE
    assert examined(Nans.PROPAGATE, SWALLOWED, drawn="user").nans is None
