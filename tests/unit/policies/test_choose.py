"""Which policy runs when, with which style and rules, and what is said of a model that is not there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kevin_cli.errors import EndpointError, MachineError, UsageError
from kevin_cli.policies.answers import ServedModel
from kevin_cli.policies.choose import Choice, choose, style_for
from kevin_cli.policies.embedded.policy import EmbeddedPolicy
from kevin_cli.policies.endpoint import Server
from kevin_cli.policies.serving import running
from kevin_cli.policies.serving.own import Wish
from kevin_cli.policies.sharing import Around
from kevin_cli.types import DeviceKind, Message, Policy, Rules, Style, Trajectory


def chosen(model: str | None, endpoint: str | None = None, device: DeviceKind = DeviceKind.CUDA) -> Choice:
    return asyncio.run(choose(model, endpoint, device=device))


def opened(choice: Choice) -> Policy:
    def render(trajectory: Trajectory, count: Any) -> tuple[Message, ...]:
        return (Message("user", "hi"),)

    async def story() -> Policy:
        policy = await choice.open(render, False, Around())
        await policy.close()
        return policy

    return asyncio.run(story())


def model_directory(path: Path, *, without: str = "") -> Path:
    path.mkdir()
    files = {
        "config.json": json.dumps({"max_position_embeddings": 8192}),
        "tokenizer.json": "{}",
        "model.safetensors": "x",
    }
    for name, text in files.items():
        if name != without:
            (path / name).write_text(text)
    return path


def test_without_a_model_the_embedded_proposer_runs_and_says_why() -> None:
    choice = chosen("", "")
    assert "embedded" in choice.reason
    assert "no model is configured" in choice.reason
    assert (choice.style, choice.rules) == (Style.GENERAL, Rules.LIBRARY)
    assert opened(choice).name == "embedded"


def test_rules_that_the_user_gave_reach_the_policy() -> None:
    choice = asyncio.run(choose(None, None, device=DeviceKind.CPU, rules=Rules.KERNELS, seed=5))
    policy = opened(choice)
    assert isinstance(policy, EmbeddedPolicy)
    assert (choice.rules, policy.rules, policy.seed) == (Rules.KERNELS, Rules.KERNELS, 5)


def test_a_script_is_opened(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('["a"]')
    assert opened(chosen(f"scripted:{tmp_path / 's.json'}")).name == "scripted s.json"


def test_an_endpoint_is_contacted_and_its_model_named(server: Any, models_reply: Callable[..., Any]) -> None:
    server.models = [models_reply("Kevin-32B")]
    choice = chosen(None, server.url)
    assert choice.reason.startswith("Kevin-32B at 127.0.0.1")
    assert (choice.style, choice.rules) == (Style.KEVIN, Rules.KERNELS)
    assert opened(choice).name.startswith("http Kevin-32B at 127.0.0.1")


def test_an_endpoint_that_is_no_server_is_refused_before_any_turn(server: Any, reply: type) -> None:
    server.models = [reply("hello")]
    with pytest.raises(EndpointError):
        chosen(None, server.url)


@pytest.mark.parametrize(
    ("name", "device", "style"),
    [
        ("cognition-ai/Kevin-32B", DeviceKind.CUDA, Style.KEVIN),
        ("cognition-ai/Kevin-32B", DeviceKind.CPU, Style.GENERAL_CPU),
        ("o4-mini", DeviceKind.CUDA, Style.GENERAL),
        ("o4-mini", DeviceKind.CPU, Style.GENERAL_CPU),
    ],
)
def test_kevins_protocol_is_for_kevin_on_cuda_only(name: str, device: DeviceKind, style: Style) -> None:
    assert style_for(name, device) is style


def test_a_model_directory_is_taken_with_its_context(tmp_path: Path) -> None:
    choice = chosen(str(model_directory(tmp_path / "smol")))
    assert "in process" in choice.reason
    assert choice.context_tokens == 8192


@pytest.mark.parametrize(
    ("without", "message"),
    [("config.json", "no config.json"), ("model.safetensors", "no weights"), ("tokenizer.json", "no tokenizer")],
)
def test_an_incomplete_model_directory_is_a_clear_error(tmp_path: Path, without: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        chosen(str(model_directory(tmp_path / "smol", without=without)))
    assert "save_pretrained" in caught.value.hint


def test_a_model_that_is_not_there_is_a_clear_error_with_the_ways_out() -> None:
    for name in ("gpt", "vllm", "/no/such/dir"):
        with pytest.raises(UsageError, match="no model directory") as caught:
            chosen(name)
        assert "--endpoint" in caught.value.hint


def test_kevin_without_weights_is_a_clear_error_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kevin_cli.policies.serving.model_files._cached", lambda name: None)
    wish = Wish(cache=tmp_path, python=sys.executable)
    with pytest.raises(MachineError, match="weights of cognition-ai/Kevin-32B") as caught:
        asyncio.run(choose("kevin", None, device=DeviceKind.CUDA, wish=wish))
    assert "hf download" in caught.value.hint


def test_a_server_that_kevin_started_is_used(server: Any, models_reply: Callable[..., Any], tmp_path: Path) -> None:
    server.models = [models_reply("Kevin-32B")]
    mine = running.Running(
        pid=os.getpid(),
        started=running.started_at(os.getpid()),
        model="cognition-ai/Kevin-32B",
        served_name="Kevin-32B",
        endpoint=server.url,
    )
    running.note(tmp_path, mine)
    choice = asyncio.run(choose("kevin", None, device=DeviceKind.CUDA, wish=Wish(cache=tmp_path)))
    assert "which kevin serve started" in choice.reason
    assert choice.style is Style.KEVIN
    assert choice.shares_device


@pytest.mark.parametrize(("url", "shares"), [("http://127.0.0.1:8000/v1", True), ("https://api.example/v1", False)])
def test_only_a_server_on_this_machine_shares_its_device(url: str, shares: bool) -> None:
    assert Server(endpoint=url, model=ServedModel(name="m")).is_local is shares


def test_a_file_is_no_model_directory(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("x")
    with pytest.raises(UsageError, match="no model directory"):
        chosen(str(tmp_path / "model.gguf"))


def test_a_directory_with_rubbish_in_it_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    choice = chosen(str(model_directory(tmp_path / "smol")))
    with pytest.raises(UsageError, match="can not be loaded as a language model"):
        opened(choice)
