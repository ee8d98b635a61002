"""Which policy runs, and why: the embedded proposer unless a model or an endpoint is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kevin_cli.errors import UsageError
from kevin_cli.policies.endpoint import check, place
from kevin_cli.policies.sharing import Around
from kevin_cli.types import DeviceKind, Message, Policy, Rules, Style, Trajectory

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]
Open = Callable[[Render, bool, Around], Awaitable[Policy]]

SCRIPT_PREFIX = "scripted:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A policy that can be opened, and what goes with it."""

    open: Open
    """Given how to render prompts, whether they end in an opened `<think>`, and what is around: the policy, ready."""
    reason: str
    """One line for the user: which policy, and why this one."""
    style: Style
    rules: Rules
    context_tokens: int | None = None
    """Prompt and completion together, where it is known."""
    shares_device: bool = False
    """Whether the model computes where the judge measures."""


async def choose(
    model: str | None, endpoint: str | None, *, device: DeviceKind, rules: Rules | None = None, seed: int = 0
) -> Choice:
    """Decide, and make the first contact when it is an endpoint.

    `rules` overrides those that go with the model; `seed` is that of the embedded proposer's order.
    Raises `UsageError` for a model that is not there, `EndpointError` for an endpoint that does not answer.
    """
    if endpoint:
        choice = await _http(endpoint, model or "", device)
    elif not model or model == "embedded":
        why = "asked for by name" if model else "no model is configured"
        choice = _embedded(why, device, rules or Rules.LIBRARY, seed)
    elif model.startswith(SCRIPT_PREFIX):
        choice = _scripted(Path(model.removeprefix(SCRIPT_PREFIX)), device)
    else:
        choice = _transformers(Path(model).expanduser(), device)
    return replace(choice, rules=rules) if rules else choice


def style_for(name: str, device: DeviceKind) -> Style:
    """Kevin's protocol for models that were trained on it (CUDA only), plain words for others."""
    if device is DeviceKind.CPU:
        return Style.GENERAL_CPU
    return Style.KEVIN if "kevin" in name.lower() else Style.GENERAL


def rules_for(style: Style) -> Rules:
    return Rules.KERNELS if style is Style.KEVIN else Rules.LIBRARY


def _choice(open_policy: Open, reason: str, style: Style, context_tokens: int | None = None) -> Choice:
    rules = rules_for(style)
    return Choice(open=open_policy, reason=reason, style=style, rules=rules, context_tokens=context_tokens)


def _embedded(why: str, device: DeviceKind, rules: Rules, seed: int) -> Choice:
    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        from kevin_cli.policies.embedded.policy import EmbeddedPolicy

        return EmbeddedPolicy(rules, seed, around.num_trajectories, around.roofline)

    return _choice(open_policy, f"embedded proposer, no weights ({why})", style_for("", device))


def _scripted(path: Path, device: DeviceKind) -> Choice:
    from kevin_cli.policies.scripted import load_script

    policy = load_script(path)

    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        return policy

    return _choice(open_policy, f"script {path}", style_for("", device))


def _transformers(path: Path, device: DeviceKind) -> Choice:
    from kevin_cli.policies.transformers import TransformersPolicy, check_directory, context_tokens

    if not path.exists():
        hint = "give a model directory, 'embedded', or --endpoint URL for a model behind a server"
        raise UsageError(f"no model directory {path}", hint)
    check_directory(path)

    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        return await asyncio.to_thread(
            TransformersPolicy.load, path, render, opens_think=opens_think, device=device.value, around=around
        )

    reason = f"transformers, in process ({path})"
    choice = _choice(open_policy, reason, style_for(path.name, device), context_tokens(path))
    return replace(choice, shares_device=True)


async def _http(endpoint: str, model: str, device: DeviceKind) -> Choice:
    server = await check(endpoint, model)

    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        from kevin_cli.policies.http import HttpPolicy

        return HttpPolicy(server, render, opens_think=opens_think, around=around)

    served = server.model
    reason = f"{served.name} at {place(endpoint)}"
    choice = _choice(open_policy, reason, style_for(served.name, device), served.context_tokens)
    return replace(choice, shares_device=server.is_local)
