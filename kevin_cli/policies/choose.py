"""Which policy runs, and why: the embedded proposer unless a model or an endpoint is configured.

    nothing, embedded   no weights
    DIRECTORY           in process, through transformers
    vllm:MODEL          in process, through vLLM
    kevin, qwq          through a vLLM server that kevin started, or that it starts for this run
    serve:MODEL         the same for any directory or name on the Hub
    scripted:FILE       for tests

With an endpoint, the model is a name behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kevin_cli.errors import UsageError
from kevin_cli.policies.endpoint import check, place
from kevin_cli.policies.sharing import Around
from kevin_cli.types import DeviceKind, Message, Policy, Rules, Style, Trajectory

if TYPE_CHECKING:
    from kevin_cli.policies.serving.own import Prepared, Wish

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]
Open = Callable[[Render, bool, Around], Awaitable[Policy]]

SCRIPT_PREFIX, VLLM_PREFIX, SERVE_PREFIX = "scripted:", "vllm:", "serve:"
ALIASES = ("kevin", "kevin-32b", "qwq", "qwq-32b")


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
    plan: tuple[str, ...] = ()
    """How GPU memory will be used, for people; shown before anything is loaded."""


async def choose(
    model: str | None,
    endpoint: str | None,
    *,
    device: DeviceKind,
    rules: Rules | None = None,
    seed: int = 0,
    wish: Wish | None = None,
) -> Choice:
    """Decide, and make the first contact when it is an endpoint. Nothing is loaded yet.

    `rules` overrides those that go with the model; `seed` is that of the embedded proposer's order; `wish` is what the
    user said about servers and GPUs. Raises `UsageError` for a model that is not there, `EndpointError` for an
    endpoint that does not answer, `MachineError` for a model that can't be served here.
    """
    if endpoint:
        choice = await _http(endpoint, model or "", device)
    elif not model or model == "embedded":
        why = "asked for by name" if model else "no model is configured"
        choice = _embedded(why, device, rules or Rules.LIBRARY, seed)
    elif model.startswith(SCRIPT_PREFIX):
        choice = _scripted(Path(model.removeprefix(SCRIPT_PREFIX)), device)
    elif model.startswith(VLLM_PREFIX):
        choice = await _vllm(_wish(wish, model.removeprefix(VLLM_PREFIX)), device)
    elif model.startswith(SERVE_PREFIX) or model.lower() in ALIASES:
        choice = await _served(_wish(wish, model.removeprefix(SERVE_PREFIX)), device)
    else:
        choice = _transformers(Path(model).expanduser(), device, wish)
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


def _transformers(path: Path, device: DeviceKind, wish: Wish | None) -> Choice:
    from kevin_cli.policies.transformers import TransformersPolicy, check_directory, context_tokens

    if not path.exists():
        hint = "give a model directory, 'kevin', 'embedded', or --endpoint URL for a model behind a server"
        raise UsageError(f"no model directory {path}", hint)
    check_directory(path)
    place = _in_process_device(device, wish)

    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        return await asyncio.to_thread(
            TransformersPolicy.load, path, render, opens_think=opens_think, device=place, around=around
        )

    reason = f"transformers, in process ({path})"
    choice = _choice(open_policy, reason, style_for(path.name, device), context_tokens(path))
    return replace(choice, shares_device=place in ("cpu", "cuda"))


def _in_process_device(device: DeviceKind, wish: Wish | None) -> str:
    """`cuda:1` when the model has a GPU of its own: the one after the judge's among those that are visible."""
    own_gpu = device is DeviceKind.CUDA and wish is not None and wish.model_gpus
    return "cuda:1" if own_gpu and wish and wish.model_gpus != wish.kernel_gpus else device.value


async def _http(endpoint: str, model: str, device: DeviceKind) -> Choice:
    server = await check(endpoint, model)

    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        from kevin_cli.policies.http import HttpPolicy

        return HttpPolicy(server, render, opens_think=opens_think, around=around)

    served = server.model
    reason = f"{served.name} at {place(endpoint)}"
    choice = _choice(open_policy, reason, style_for(served.name, device), served.context_tokens)
    return replace(choice, shares_device=server.is_local)


# --- models of our own -------------------------------------------------------------------------------


def _wish(wish: Wish | None, model: str) -> Wish:
    if wish is None:
        raise UsageError(f"{model} needs a server, and none may be started here", "give --endpoint URL")
    return replace(wish, model=model)


async def _served(wish: Wish, device: DeviceKind) -> Choice:
    """A server that kevin started, wherever it is; else one of our own for the length of the run."""
    from kevin_cli.policies.serving import own, running
    from kevin_cli.policies.serving.model_files import full_name

    known = running.find_running(wish.cache, full_name(wish.model))
    if known:
        choice = await _http(known.endpoint, known.served_name, device)
        return replace(choice, reason=f"{choice.reason}, which kevin serve started")
    prepared = await asyncio.to_thread(own.prepare, wish)
    own.refuse_short(prepared)

    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        from kevin_cli.policies.own_server import OwnServerPolicy

        return await OwnServerPolicy.start(prepared, render, opens_think=opens_think, around=around)

    return _own(prepared, open_policy, f"{prepared.serving.served_name} through a vLLM server for this run", device)


async def _vllm(wish: Wish, device: DeviceKind) -> Choice:
    import sys

    from kevin_cli.policies.serving import own

    prepared = await asyncio.to_thread(own.prepare, replace(wish, python=sys.executable))
    own.refuse_short(prepared)

    async def open_policy(render: Render, opens_think: bool, around: Around) -> Policy:
        from kevin_cli.policies.vllm import VllmPolicy

        return await VllmPolicy.load(
            prepared.serving, render, opens_think=opens_think, around=around, sleeps=wish.sleeps
        )

    return _own(prepared, open_policy, f"vLLM, in process ({prepared.serving.model})", device)


def _own(prepared: Prepared, open_policy: Open, reason: str, device: DeviceKind) -> Choice:
    serving = prepared.serving
    choice = _choice(open_policy, reason, style_for(serving.served_name, device), serving.max_model_len)
    shares = prepared.split.shares or prepared.facts.plan is None
    return replace(choice, shares_device=shares, plan=tuple(prepared.plan_lines))
