"""Where a pool seats tasks, and that it judges equal candidates once; seats here only note what they are asked."""

import asyncio
from dataclasses import replace

import pytest
from pool_samples import candidate, task

from kevin_cli.harness.pool import SeatedPool
from kevin_cli.types import BuildReport, Outcome, TaskReport, Verdict

BUILT = BuildReport(way="thin", wall_s=1.5, num_libraries=1, cached=False)


class NotingSeat:
    """Answers after a moment; `most` is how many candidates were on it at once, `open` which task it has."""

    def __init__(self, outcome=Outcome.CORRECT):
        self.outcome, self.judged, self.built, self.prepared, self.tasks = outcome, [], [], [], set()
        self.present = self.most = 0
        self.mixed = self.closed = False

    async def open_task(self, task):
        return TaskReport(baselines=())

    async def prepare(self, task):
        self.prepared.append(task.digest)

    async def build(self, task, candidate):
        self.built.append(candidate.digest)
        await asyncio.sleep(0.001)
        return BUILT

    async def judge(self, task, candidate, *, final=False, watch=None):
        self.present += 1
        self.most = max(self.most, self.present)
        self.tasks.add(task.digest)
        self.mixed |= self.present > 1 and task.digest != self.at
        self.at = task.digest
        try:
            await asyncio.sleep(0.01)
        finally:
            self.present -= 1
        self.judged.append((task.digest, candidate.digest, final))
        return Verdict(outcome=self.outcome, detail="", build=replace(BUILT, cached=True, wall_s=0.0))

    async def release(self):
        self.closed = True

    close = release


def run(seats, story):
    async def go():
        async with SeatedPool(seats) as pool:
            return await story(pool)

    return asyncio.run(go())


def test_equal_candidates_of_a_task_are_judged_once_and_not_across_tasks():
    seat = NotingSeat()

    async def story(pool):
        asked = [(task("t"), candidate("x")), (task("t"), candidate("x")), (task("u"), candidate("x"))]
        return await asyncio.gather(*(pool.judge(*pair) for pair in asked))

    first, second, _ = run([seat], story)
    assert first is second
    assert sorted(seat.judged) == [("t", "x", False), ("u", "x", False)]


@pytest.mark.parametrize(("final", "outcome"), [(True, Outcome.CORRECT), (False, Outcome.INFRA)])
def test_a_final_judgement_and_a_fault_of_ours_are_never_taken_from_memory(final, outcome):
    seat = NotingSeat(outcome)

    async def story(pool):
        for _ in range(2):
            await pool.judge(task("t"), candidate("x"), final=final)

    run([seat], story)
    assert len(seat.judged) == 2


def test_when_the_first_asker_is_cancelled_the_second_takes_over():
    seat = NotingSeat()

    async def story(pool):
        first = asyncio.create_task(pool.judge(task("t"), candidate("x")))
        await asyncio.sleep(0.002)
        second = asyncio.create_task(pool.judge(task("t"), candidate("x")))
        await asyncio.sleep(0.002)
        first.cancel()
        return await second

    assert run([seat], story).is_correct
    assert seat.present == 0


def test_a_group_is_on_a_seat_together_and_two_tasks_never_are():
    seat = NotingSeat()

    async def story(pool):
        pairs = [(task(t), candidate(c)) for t in "tu" for c in "abcdefgh"]
        await asyncio.gather(*(pool.judge(*pair) for pair in pairs))

    run([seat], story)
    assert seat.most == 8
    assert not seat.mixed


def test_tasks_are_spread_over_the_seats_and_stay_where_they_are():
    seats = [NotingSeat(), NotingSeat()]

    async def story(pool):
        for names in ("abcd", "efgh"):
            await asyncio.gather(*(pool.judge(task(t), candidate(c)) for t in "tuvw" for c in names))

    run(seats, story)
    assert [len(seat.tasks) for seat in seats] == [2, 2]
    assert not seats[0].tasks & seats[1].tasks
    assert all(seat.closed for seat in seats)


def test_who_waits_for_its_turn_is_built_meanwhile_and_the_verdict_tells_of_that_build():
    seat = NotingSeat()

    async def story(pool):
        first = asyncio.create_task(pool.judge(task("t"), candidate("x")))
        second = asyncio.create_task(pool.judge(task("u"), candidate("y")))
        await asyncio.sleep(0.005)
        assert seat.built == ["x", "y"]
        assert seat.prepared == ["t", "u"]
        assert not seat.judged
        return await asyncio.gather(first, second)

    assert [verdict.build for verdict in run([seat], story)] == [BUILT, BUILT]


def test_a_pool_that_spreads_puts_one_task_on_every_idle_seat():
    seats = [NotingSeat(), NotingSeat(), NotingSeat()]

    async def go():
        async with SeatedPool(seats, spreads=True) as pool:
            await asyncio.gather(*(pool.judge(task("t"), candidate(c)) for c in "abcdef"))
            assert pool.num_seats == 3

    asyncio.run(go())
    assert [len(seat.judged) for seat in seats] == [2, 2, 2]
