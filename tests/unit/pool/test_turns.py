"""Keys take turns; whoever has the key that is inside joins; waiting can be given up."""

import asyncio

import pytest

from kevin_cli.harness.turns import MAX_JOINED, Turns


async def stay(turns, key, seen, until=None):
    async with turns.inside(key):
        seen.append(key)
        await (until.wait() if until else asyncio.sleep(0))


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


def test_one_key_is_inside_together_and_another_waits_for_all_of_it():
    async def go():
        turns, seen, leave = Turns(), [], asyncio.Event()
        tasks = [asyncio.create_task(stay(turns, key, seen, leave)) for key in "abab"]
        await settle()
        assert seen == ["a", "a"]
        assert turns.num_present == 4
        leave.set()
        await asyncio.gather(*tasks)
        assert turns.num_present == 0
        return seen

    assert asyncio.run(go()) == ["a", "a", "b", "b"]


def test_keys_come_in_the_order_in_which_they_first_waited():
    async def go():
        turns, seen = Turns(), []
        await asyncio.gather(*(stay(turns, key, seen) for key in "acbcabc"))
        return seen

    assert "".join(asyncio.run(go())) == "aacccbb"


def test_a_key_that_keeps_coming_does_not_shut_others_out():
    async def go():
        turns, seen = Turns(), []
        await asyncio.gather(*(stay(turns, key, seen) for key in ["a", "b", *"a" * (2 * MAX_JOINED)]))
        return seen

    assert asyncio.run(go()).index("b") == MAX_JOINED


@pytest.mark.parametrize("called", [False, True])
def test_who_gives_up_waiting_holds_nobody_up(called):
    async def go():
        turns, seen, leave = Turns(), [], asyncio.Event()
        first = asyncio.create_task(stay(turns, "a", seen, leave))
        await settle()
        second = asyncio.create_task(stay(turns, "b", seen))
        third = asyncio.create_task(stay(turns, "c", seen))
        await settle()
        if called:  # cancelled after its turn came and before it could take it
            leave.set()
            await asyncio.wait([first])
        second.cancel()
        leave.set()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert turns.num_present == 0
        return seen

    assert asyncio.run(go())[-1] == "c"
