"""Any policy by name, for `rollout`, `eval` and the warm start: weights, an endpoint, the embedded proposer, a script.

embedded | plain | scripted:FILE | http://HOST/v1[#MODEL] | DIRECTORY[+ADAPTERS] | run:DIRECTORY
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.harness.device_lock import exclusive
from kevin_cli.refine.prompt import Setting, prompt_budget, renderer
from kevin_cli.types import Completion, DeviceKind, Limits, Policy, Rules, Style, Trajectory
from trainer.config import Config
from trainer.places import Places, last_checkpoint

FORMS = "embedded, plain, scripted:FILE, http://HOST/v1#MODEL, DIRECTORY, DIRECTORY+ADAPTERS or run:DIRECTORY"


class Alone:
    """`present` for a policy that does not decode in batches."""

    def present(self) -> AbstractContextManager[None]:
        return nullcontext()


class Holding:
    """A policy that computes on the device that candidates are timed on, and that nobody can pause: it holds the
    device from the first answer that is being written to the last, so that nothing is timed meanwhile."""

    def __init__(self, inner: Policy, device: DeviceKind) -> None:
        self.name = inner.name
        self._inner = inner
        self._device = device
        self._writing = 0
        self._entering = asyncio.Lock()
        self._held = AsyncExitStack()

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        async with self._entering:
            if not self._writing:
                await self._held.enter_async_context(exclusive(self._device))
            self._writing += 1
        try:
            return await self._inner.propose(trajectory, limits)
        finally:
            self._writing -= 1
            if not self._writing:
                await self._held.aclose()

    async def close(self) -> None:
        await self._inner.close()


@dataclass(frozen=True, slots=True)
class Speaker:
    """A policy, and who has to know that it may still be asked."""

    policy: Policy
    engine: Any


def label_of(text: str) -> str:
    """What rows and tables call it: the label, or the whole when there is none."""
    return text.partition("=")[0]


async def open_speaker(text: str, config: Config) -> Speaker:
    """Raises `UsageError` for what is not there, `EndpointError` for an endpoint that does not answer."""
    label, equals, rest = text.partition("=")
    spec = rest if equals else label
    device, rules = DeviceKind(config.judge.device), Rules(config.judge.rules)
    if spec == "plain":
        from trainer.plain import PlainPolicy

        return Speaker(PlainPolicy(), Alone())
    if spec == "embedded" or spec.startswith(("scripted:", "http://", "https://")):
        return Speaker(await _chosen(spec, config, device, rules), Alone())
    if spec.startswith("run:"):
        return _weights(*_checkpoint(Path(spec.removeprefix("run:")), config), config, device)
    path, _, adapters = spec.partition("+")
    if not Path(path).is_dir():
        raise UsageError(f"there is no policy {spec!r}", f"give one of {FORMS}")
    return _weights(path, adapters, config, device)


async def _chosen(spec: str, config: Config, device: DeviceKind, rules: Rules) -> Policy:
    """One of the command line's own policies, worded in the configuration's style."""
    from kevin_cli.policies.choose import choose
    from kevin_cli.policies.sharing import Around

    url, _, model = spec.partition("#") if spec.startswith("http") else ("", "", spec)
    choice = await choose(model or None, url or None, device=device, rules=rules, seed=config.learn.seed)
    style = Style(config.rollout.style)
    render = renderer(style, prompt_budget(style, choice.context_tokens), Setting(rules=rules))
    policy = await choice.open(render, style is Style.KEVIN, Around())
    return Holding(policy, device) if choice.shares_device else policy


def _checkpoint(root: Path, config: Config) -> tuple[str, str]:
    """The base model and the newest adapters of a run, or its newest whole model."""
    found = last_checkpoint(Places(root).checkpoints)
    if found is None:
        raise UsageError(f"{root} has no whole checkpoint", "train first, or name a model directory")
    return (config.model.path, str(found)) if (found / "adapter_config.json").is_file() else (str(found), "")


def _weights(path: str, adapters: str, config: Config, device: DeviceKind) -> Speaker:
    from trainer.decode import DecodingEngine
    from trainer.encode import Encoder
    from trainer.engines import EnginePolicy
    from trainer.models import load_model, load_tokenizer, merged, refuse_other_end

    model = config.model.model_copy(update={"path": path, "adapters": adapters})
    style, rollout = Style(config.rollout.style), config.rollout
    encoder, loaded = Encoder(load_tokenizer(model), style is Style.KEVIN), load_model(model)
    refuse_other_end(loaded, encoder.end_id)
    place = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if device is DeviceKind.CUDA else "cpu"
    engine = DecodingEngine(
        merged(loaded, model).to(place),
        encoder,
        device=device,
        batch=rollout.generation_batch,
        max_prompt_tokens=rollout.max_prompt_tokens,
    )
    render = renderer(style, rollout.max_prompt_tokens, Setting(rules=Rules(config.judge.rules)))
    name = f"{Path(path).name}{f' + {Path(adapters).name}' if adapters else ''}"
    policy = EnginePolicy(engine, encoder, render, max_prompt_tokens=rollout.max_prompt_tokens, name=name)
    return Speaker(policy, engine)
