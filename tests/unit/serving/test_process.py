"""A server as a process: progress while it loads, the reason when it dies, nothing left when it is ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from kevin_cli.errors import MachineError
from kevin_cli.policies.serving import process, running
from kevin_cli.policies.serving.process import ServerProcess

PRETENDED = Path(__file__).with_name("pretended_vllm.py")


async def started(tmp_path: Path, way: str = "fine") -> ServerProcess:
    port = process.free_port(0)
    argv = [sys.executable, str(PRETENDED), str(port), way]
    return await process.start(argv, {}, tmp_path / "logs" / "server.log", f"http://127.0.0.1:{port}/v1")


def child_of(server: ServerProcess) -> int:
    found = re.search(r"child (\d+)", server.log.read_text())
    assert found
    return int(found[1])


def test_progress_is_told_and_everything_is_ended(tmp_path: Path) -> None:
    async def story() -> tuple[list[str], int]:
        told: list[str] = []
        server = await started(tmp_path)
        try:
            await process.wait_healthy(server, told.append)
        finally:
            await process.stop(server)
        assert server.has_ended
        return told, child_of(server)

    told, child = asyncio.run(story())
    assert any("checkpoint shards" in line and "%" in line for line in told)
    with contextlib.suppress(psutil.NoSuchProcess):
        assert psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_server_that_dies_while_it_starts_says_why(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path, "dies")
        await process.wait_healthy(server, lambda line: None)

    with pytest.raises(MachineError, match="ValueError: No available memory") as caught:
        asyncio.run(story())
    assert "server.log" in caught.value.hint


def test_a_server_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        server = await started(tmp_path)
        try:
            await process.wait_healthy(server, lambda line: None, timeout_s=0.1)
        finally:
            await process.stop(server)

    with pytest.raises(MachineError, match=r"not ready after 0\.1 s"):
        asyncio.run(story())


def test_a_server_that_does_not_want_to_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_TIMEOUT_S", 0.3)

    async def story() -> None:
        server = await started(tmp_path, "stubborn")
        await process.wait_healthy(server, lambda line: None)
        await process.stop(server)
        assert server.has_ended

    asyncio.run(story())


def test_a_program_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="can't start /no/such/vllm"):
        asyncio.run(process.start(["/no/such/vllm"], {}, tmp_path / "log", "http://127.0.0.1:1/v1"))


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Loading safetensors checkpoint shards:  50% Completed | 7/14 [00:10<00:10]", "shards: 50% Completed"),
        ("INFO 11-30 Loading weights took 12.31 seconds", "Loading weights took 12.31 seconds"),
        ("nothing of interest", ""),
    ],
)
def test_the_lines_that_tell_progress_are_known(output: str, line: str) -> None:
    assert line in process.progress(output)
    assert bool(process.progress(output)) == bool(line)


# --- servers that other commands find ----------------------------------------------------------------


def server_of(pid: int) -> running.Running:
    return running.Running(
        pid=pid,
        started=running.started_at(pid),
        model="cognition-ai/Kevin-32B",
        served_name="Kevin-32B",
        endpoint="http://127.0.0.1:8000/v1",
        gpus=(1, 2),
    )


def test_a_server_that_runs_is_found_by_either_name(tmp_path: Path) -> None:
    mine = server_of(os.getpid())
    running.note(tmp_path, mine)
    assert running.find_running(tmp_path, "Kevin-32B") == mine
    assert running.find_running(tmp_path, "cognition-ai/Kevin-32B") == mine
    assert running.find_running(tmp_path, "QwQ-32B") is None


def test_one_that_ended_and_one_whose_number_was_used_again_are_forgotten(tmp_path: Path) -> None:
    import dataclasses

    running.note(tmp_path, dataclasses.replace(server_of(os.getpid()), started=time.time() - 9999))
    running.note(tmp_path, dataclasses.replace(server_of(2**22 - 1), started=1.0))
    (running.folder_of(tmp_path) / "7.json").write_text("rubbish")
    assert running.list_running(tmp_path) == []
