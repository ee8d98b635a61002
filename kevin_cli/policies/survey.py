"""Which models could propose: what is configured, what kevin serves, what answers at the usual ports, what lies here.

Each is looked at with short limits and side by side; nothing is loaded, nothing is fetched. Whoever answers may be
asked for a few tokens, which says how fast it is right now, with whatever else it is doing.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kevin_cli.errors import KevinError
from kevin_cli.policies.answers import read_models
from kevin_cli.policies.calls import call
from kevin_cli.policies.endpoint import Server, check, place
from kevin_cli.policies.http import HttpPolicy
from kevin_cli.policies.serving import running
from kevin_cli.policies.serving.memory_plan import gib
from kevin_cli.policies.serving.model_files import PUBLISHED, ModelFiles, find
from kevin_cli.types import Contract, DeviceKind, Limits, Message, Target, Task, Trajectory, Tree

USUAL = (("vLLM", 8000), ("SGLang", 30000), ("llama.cpp", 8080), ("Ollama", 11434))
LOOK_TIMEOUT_S = 1.0
ASK_TIMEOUT_S = 60.0
ASK_TOKENS = 32
QUESTION = (Message("user", "Write a CUDA kernel that adds two vectors."),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One model, and what is known of it."""

    name: str
    place: str
    """Where it is: a URL, a folder, `kevin`."""
    state: Literal["ready", "paused", "loaded", "here", "incomplete", "unreachable", "absent"]
    detail: str = ""
    context_tokens: int | None = None
    tokens_per_s: float | None = None
    is_configured: bool = False


async def survey(model: str, endpoint: str, cache: Path, *, ask: bool) -> list[Found]:
    """Everything, the configured one first."""
    known = running.list_running(cache)
    urls = [(r.endpoint, "kevin serve") for r in known]
    listed = {url for url, _ in urls} | {endpoint.rstrip("/")}
    usual = [(f"http://127.0.0.1:{port}/v1", name) for name, port in USUAL]
    looked = await asyncio.gather(
        *(_look(url, who, ask=ask) for url, who in urls + [u for u in usual if u[0] not in listed])
    )
    configured = await _configured(model, endpoint, ask=ask)
    local = await asyncio.to_thread(_on_disk)
    return [*configured, *(found for server in looked for found in server), *local]


async def _configured(model: str, endpoint: str, *, ask: bool) -> list[Found]:
    if not endpoint and not model:
        text = "no weights; proposes when no model is configured"
        return [Found(name="embedded", place="kevin", state="ready", detail=text, is_configured=True)]
    if endpoint:
        try:
            server = await check(endpoint, model)
        except KevinError as error:
            return [_unreachable(model or "any", place(endpoint), error)]
        return [replace(await _served(server, "configured", ask=ask), is_configured=True)]
    name = model.removeprefix("serve:").removeprefix("vllm:")
    return [replace(await asyncio.to_thread(lambda: _files(find(name))), is_configured=True)]


def _unreachable(name: str, where: str, error: KevinError) -> Found:
    return Found(name=name, place=where, state="unreachable", detail=error.message, is_configured=True)


async def _look(url: str, who: str, *, ask: bool) -> list[Found]:
    """The models at an address, none when nobody answers there."""
    try:
        status, body = await asyncio.to_thread(call, f"{url}/models", headers={}, timeout_s=LOOK_TIMEOUT_S, get=True)
    except OSError:
        return []
    models = read_models(body) if status == 200 else None
    return [await _served(Server(endpoint=url, model=model), who, ask=ask) for model in models or ()]


async def _served(server: Server, who: str, *, ask: bool) -> Found:
    found = Found(
        name=server.model.name,
        place=place(server.endpoint),
        state="paused" if await _is_paused(server) else "loaded",
        detail=server.model.owner or who,
        context_tokens=server.model.context_tokens,
    )
    if not ask or found.state == "paused":
        return found
    speed, error = await _speed(server)
    return replace(
        found, state="ready" if not error else "unreachable", tokens_per_s=speed, detail=error or found.detail
    )


async def _is_paused(server: Server) -> bool:
    """vLLM in its development mode says so; a kevin that was killed while it timed a kernel leaves it like that."""
    try:
        status, body = await asyncio.to_thread(
            call, f"{server.root}/is_paused", headers=server.headers, timeout_s=LOOK_TIMEOUT_S, get=True
        )
        return status == 200 and json.loads(body).get("is_paused") is True
    except (OSError, ValueError, AttributeError):
        return False


async def _speed(server: Server) -> tuple[float | None, str]:
    """Tokens a second of one short answer, its prompt included; or why there is none."""
    policy = HttpPolicy(server, lambda trajectory, counter: QUESTION, max_retries=0, reconnect_s=0.0)
    limits = Limits(max_tokens=ASK_TOKENS, temperature=0.9, timeout_s=ASK_TIMEOUT_S, seed=1)
    try:
        completion = await policy.propose(Trajectory(task=_NO_TASK, index=0), limits)
    finally:
        await policy.close()
    if completion.finish_reason == "error":
        return None, completion.error
    count = completion.num_completion_tokens or len(completion.text) // 4
    return (count / completion.wall_s if completion.wall_s else None), ""


def _on_disk() -> list[Found]:
    return [_files(find(name)) for name in PUBLISHED]


def _files(files: ModelFiles) -> Found:
    if files.folder is None:
        size = f", {gib(files.download_bytes)}" if files.download_bytes else ""
        return Found(name=files.name, place="not here", state="absent", detail=f"hf download {files.name}{size}")
    size = gib((files.shape.num_params * 2 + files.shape.fixed_bytes) if files.shape else 0)
    lacks = f"lacks {', '.join(files.missing[:2])}" if files.missing else f"{size} in 16 bits"
    state: Literal["here", "incomplete"] = "here" if files.is_whole else "incomplete"
    return Found(
        name=files.name, place=str(files.folder), state=state, detail=lacks, context_tokens=files.context_tokens
    )


_NO_TASK = Task(
    name="hello",
    digest="",
    target=Target(path="", class_name="Model", python=""),
    source="",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple"),
    outputs=Tree(kind="tuple"),
    output_specs=(),
    parameters=(),
    contract=Contract(device=DeviceKind.CPU, inputs=()),
    graph=None,
)
"""A trajectory is always on a task; this one's question does not look at it."""
