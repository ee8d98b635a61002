"""Which timed blocks are verified: the first, a secret one of each few, and the last."""

import asyncio
from types import SimpleNamespace

import pytest

from kevin_cli.harness.examine import BLOCKS_PER_CHECK, CHECKED_SLOTS, SecretChecks
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.types import Outcome


class Reference:
    """Answers what it is told to, and writes down which slots it was asked for."""

    def __init__(self, answer=None):
        self.answer = answer or {"passed": True, "kind": "ok", "detail": ""}
        self.asked, self.marked = [], []

    async def mark(self, slots):
        self.marked.append(list(slots))

    async def check_block(self, slots):
        self.asked.append(list(slots))
        return self.answer


def checked(num_blocks, reference):
    """The numbers of the blocks that were verified; block n has the slots n·100 to n·100 + 39."""

    async def run():
        checks = SecretChecks(SimpleNamespace(reference=reference))
        for number in range(num_blocks):
            await checks.after(range(100 * number, 100 * number + 40))
        await checks.last()

    asyncio.run(run())
    return [slots[0] // 100 for slots in reference.asked]


def test_the_first_and_the_last_are_verified_and_one_of_each_few_between():
    for _ in range(20):
        found = checked(25, Reference())
        assert (found[0], found[-1]) == (0, 24)
        groups = [number // BLOCKS_PER_CHECK for number in found[:-1]]
        assert groups == sorted(set(groups)), "one in each"
        assert set(range(25 // BLOCKS_PER_CHECK)) <= set(groups)


def test_which_one_is_a_secret():
    assert len({tuple(checked(25, Reference())) for _ in range(20)}) > 10


def test_a_part_of_a_blocks_calls_is_drawn():
    reference = Reference()
    checked(1, reference)
    assert len(set(reference.asked[0])) == CHECKED_SLOTS


@pytest.mark.parametrize(("kind", "outcome"), [("values", Outcome.MISMATCH), ("redzone", Outcome.TAMPERED)])
def test_a_wrong_output_in_a_timed_block_is_the_candidates_fault(kind, outcome):
    with pytest.raises(CandidateFault, match="in a timed block") as fault:
        checked(1, Reference({"passed": False, "kind": kind, "detail": "it is wrong"}))
    assert fault.value.outcome is outcome


def test_what_may_be_verified_later_is_marked_while_its_inputs_are_those_that_it_saw():
    reference = Reference()
    found = checked(25, reference)
    marked = [slots[0] // 100 for slots in reference.marked]
    assert sorted({*found, *marked}) == list(range(25))
    assert set(found[:-1]) & set(marked) == set()
