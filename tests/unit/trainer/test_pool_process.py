"""Ranks ask one pool over a socket: shared verdicts, stages, lost connections, a pool that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from train_samples import correct, task

from kevin_cli.errors import InfraError, KevinError, MachineError
from kevin_cli.harness.pool_client import PoolClient
from kevin_cli.harness.pool_serve import serve
from kevin_cli.types import Candidate, Outcome, Stage, StageWatch, Task, TaskReport, Verdict
from trainer.recorded import RecordedVerdicts, load_verdicts

TASK = task()


def candidate(name: str) -> Candidate:
    return Candidate(source=f"# {name}\n", digest=name)


class SlowPool:
    """Every verdict takes `seconds`; remembers what it was asked."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.asked: list[str] = []
        self.cancelled: list[str] = []

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        self.asked.append(candidate.digest)
        if watch:
            watch(Stage.BUILDING)
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled.append(candidate.digest)
            raise
        return correct(2.0)

    async def open_task(self, task: Task) -> TaskReport:
        raise MachineError("there is no compiler", "install one")

    async def release(self) -> None: ...

    async def close(self) -> None: ...


@asynccontextmanager
async def serving(socket: Path, pool: SlowPool) -> AsyncIterator[None]:
    server = asyncio.create_task(serve(socket, pool))
    while not socket.exists():
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        server.cancel()
        await asyncio.wait({server})
        socket.unlink(missing_ok=True)


def test_a_verdict_comes_over_the_socket_as_it_was_made(tmp_path: Path) -> None:
    async def story() -> tuple[Verdict, list[Stage]]:
        client, stages = PoolClient(tmp_path / "s"), list[Stage]()
        async with serving(tmp_path / "s", SlowPool()):
            verdict = await client.judge(TASK, candidate("a"), watch=stages.append)
            await client.close()
        return verdict, stages

    verdict, stages = asyncio.run(story())
    assert verdict == correct(2.0)
    assert stages == [Stage.BUILDING]


def test_many_ranks_ask_at_once(tmp_path: Path) -> None:
    async def story() -> int:
        clients = [PoolClient(tmp_path / "s") for _ in range(4)]
        async with serving(tmp_path / "s", pool := SlowPool(0.05)):
            asks = [client.judge(TASK, candidate(f"{n}")) for n, client in enumerate(clients * 8)]
            async with asyncio.timeout(10):
                await asyncio.gather(*asks)
            for client in clients:
                await client.close()
        return len(pool.asked)

    assert asyncio.run(story()) == 32


def test_what_a_lost_pool_was_doing_is_asked_of_the_next_one(tmp_path: Path) -> None:
    async def story() -> tuple[Verdict, list[str]]:
        client, first, second = PoolClient(tmp_path / "s"), SlowPool(60), SlowPool()
        async with serving(tmp_path / "s", first):
            asking = asyncio.create_task(client.judge(TASK, candidate("a")))
            while not first.asked:
                await asyncio.sleep(0.01)
            client._connection.writer.transport.abort()  # type: ignore[union-attr]
        async with serving(tmp_path / "s", second):
            verdict = await asking
            await client.close()
        return verdict, second.asked

    verdict, asked = asyncio.run(story())
    assert verdict.is_correct
    assert asked == ["a"]


def test_a_pool_that_stays_away_ends_the_run_with_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"judge pool .* is gone"):
        asyncio.run(PoolClient(tmp_path / "s", gone_after_s=0.1).judge(TASK, candidate("a")))


def test_a_verdict_that_takes_too_long_is_a_fault_of_ours(tmp_path: Path) -> None:
    async def story() -> tuple[Verdict, SlowPool]:
        client = PoolClient(tmp_path / "s", verdict_timeout_s=0.2)
        async with serving(tmp_path / "s", pool := SlowPool(60)):
            verdict = await client.judge(TASK, candidate("a"))
            while not pool.cancelled:
                await asyncio.sleep(0.01)
            await client.close()
        return verdict, pool

    verdict, pool = asyncio.run(story())
    assert verdict.outcome is Outcome.INFRA
    assert pool.cancelled == ["a"]


def test_what_the_pool_refuses_is_raised_with_its_hint(tmp_path: Path) -> None:
    async def story() -> None:
        client = PoolClient(tmp_path / "s")
        async with serving(tmp_path / "s", SlowPool()):
            try:
                await client.open_task(TASK)
            finally:
                await client.close()

    with pytest.raises(KevinError, match="no compiler") as caught:
        asyncio.run(story())
    assert caught.value.hint == "install one"


def test_a_known_verdict_is_not_asked_for_unless_it_is_final(tmp_path: Path) -> None:
    lines = tmp_path / "verdicts.jsonl"
    from kevin_cli.records import dumps

    lines.write_text(f'{{"task": "{TASK.digest}", "candidate": "a", "verdict": {dumps(correct(3.0))}}}\n')
    pool = SlowPool()
    known = RecordedVerdicts(pool, load_verdicts(lines))
    assert asyncio.run(known.judge(TASK, candidate("a"))) == correct(3.0)
    assert pool.asked == []
    asyncio.run(known.judge(TASK, candidate("a"), final=True))
    asyncio.run(known.judge(TASK, candidate("b")))
    assert pool.asked == ["a", "b"]
