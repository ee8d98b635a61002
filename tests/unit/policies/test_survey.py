"""What `kevin models` finds: the configured model first, servers that answer, weights that are here or not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_model

from kevin_cli.policies import survey as surveying
from kevin_cli.policies.serving import running
from kevin_cli.policies.survey import Found, survey


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what this machine happens to serve or keep."""
    monkeypatch.setattr(surveying, "USUAL", ())
    monkeypatch.setattr("kevin_cli.policies.serving.model_files._cached", lambda name: None)


def look(cache: Path, model: str = "", endpoint: str = "", *, ask: bool = True) -> list[Found]:
    return asyncio.run(survey(model, endpoint, cache, ask=ask))


def test_without_anything_the_embedded_proposer_is_there_and_weights_are_named(tmp_path: Path) -> None:
    embedded, kevin, qwq = look(tmp_path)
    assert (embedded.name, embedded.state, embedded.is_configured) == ("embedded", "ready", True)
    assert (kevin.state, qwq.state) == ("absent", "absent")
    assert "hf download cognition-ai/Kevin-32B" in kevin.detail
    assert "122.1 GiB" in kevin.detail


def test_a_configured_endpoint_is_asked_and_timed(server: Any, chat_reply: Callable[..., Any], tmp_path: Path) -> None:
    server.chats = [chat_reply("hello")]
    found = look(tmp_path, endpoint=server.url)[0]
    assert (found.name, found.state, found.is_configured) == ("tiny", "ready", True)
    assert found.tokens_per_s is not None
    assert found.tokens_per_s > 0
    assert server.requests[0]["max_tokens"] == surveying.ASK_TOKENS


def test_nobody_is_asked_when_the_user_does_not_want_it(server: Any, tmp_path: Path) -> None:
    found = look(tmp_path, endpoint=server.url, ask=False)[0]
    assert (found.state, found.tokens_per_s) == ("loaded", None)
    assert server.requests == []


def test_an_endpoint_that_does_not_answer_says_why(tmp_path: Path) -> None:
    found = look(tmp_path, endpoint="http://127.0.0.1:9/v1")[0]
    assert found.state == "unreachable"
    assert "no server answers" in found.detail


def test_a_model_that_is_listed_and_fails_is_not_ready(server: Any, reply: Any, tmp_path: Path) -> None:
    server.chats = [reply({"error": {"message": "out of memory"}}, status=500)]
    found = look(tmp_path, endpoint=server.url)[0]
    assert found.state == "unreachable"
    assert "out of memory" in found.detail


def test_a_server_that_kevin_started_is_found_and_seen_paused(
    server: Any, models_reply: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def paused(one: Any) -> bool:
        return True

    monkeypatch.setattr(surveying, "_is_paused", paused)
    server.models = [models_reply("Kevin-32B")]
    mine = running.Running(
        pid=os.getpid(),
        started=running.started_at(os.getpid()),
        model="cognition-ai/Kevin-32B",
        served_name="Kevin-32B",
        endpoint=server.url,
    )
    running.note(tmp_path, mine)
    found = next(one for one in look(tmp_path) if one.name == "Kevin-32B")
    assert found.state == "paused"
    assert server.requests == [], "a paused server would not answer"


def test_a_directory_that_is_configured_is_looked_at(tmp_path: Path) -> None:
    directory = tiny_model.make(tmp_path / "tiny")
    for name in (str(directory), f"serve:{directory}", f"vllm:{directory}"):
        assert (look(tmp_path, model=name)[0].state, look(tmp_path, model=name)[0].is_configured) == ("here", True)
    (directory / "model.safetensors").unlink()
    found = look(tmp_path, model=str(directory))[0]
    assert (found.state, found.detail) == ("incomplete", "lacks *.safetensors")
