"""`kevin serve`: what is missing, or the memory plan and a vLLM server until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.report import SCHEMA_VERSION, print_object
from kevin_cli.commands.session import Order
from kevin_cli.errors import ExitCode, MachineError
from kevin_cli.policies.serving import own, process
from kevin_cli.settings import Settings


def wish_of(settings: Settings, model: str, ways: Mapping[str, Any] | None = None) -> own.Wish:
    """A server of our own, from the settings and what else was said."""
    return own.Wish(
        model=model,
        cache=settings.cache.absolute(),
        python=settings.vllm_python,
        max_model_len=settings.max_model_len or 0,
        quantization=settings.quantization,
        model_gpus=settings.model_gpus,
        kernel_gpus=settings.kernel_gpus,
        sleeps=settings.model_sleeps,
        **(ways or {}),
    )


def run(model: str, ways: Mapping[str, Any], flags: Mapping[str, Any], *, print_only: bool) -> int:
    """0 after Ctrl-C; raises `MachineError` (3) when something is missing or vLLM ends by itself."""
    order = sessions.take_order(flags)
    prepared = own.prepare(wish_of(order.settings, model, ways))
    if order.as_json:
        print_object(_object(prepared))
    for line in prepared.plan_lines:
        order.screen.say(line)
    if print_only:
        return _print(order, prepared)
    return asyncio.run(_serve(order, prepared))


def _print(order: Order, prepared: own.Prepared) -> int:
    """The command alone on stdout; what is missing is said beside it."""
    for shortage in prepared.shortages:
        order.screen.say(f"missing: {shortage.what}\n  {shortage.fix}")
    if not order.as_json:
        print(prepared.command)
    return int(ExitCode.OK)


async def _serve(order: Order, prepared: own.Prepared) -> int:
    """Until the user has enough of it."""
    enough = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, enough.set)
    starting = asyncio.create_task(_until(enough, order, prepared))
    await asyncio.wait([starting, waiting := asyncio.create_task(enough.wait())], return_when=asyncio.FIRST_COMPLETED)
    if enough.is_set() and not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
    waiting.cancel()
    if not starting.cancelled():
        starting.result()
    order.screen.say("the server has ended")
    return int(ExitCode.OK)


async def _until(enough: asyncio.Event, order: Order, prepared: own.Prepared) -> None:
    async with own.running_server(prepared, order.screen.say) as server:
        if not order.as_json:
            order.screen.result(server.endpoint)
        order.screen.say(f"ready: kevin optimize model.py --model {prepared.wish.model}   (Ctrl-C ends the server)")
        await server.process.wait()
        if not enough.is_set():
            raise MachineError(f"vLLM ended: {process.complaint(server.log)}", f"its output: {server.log}")


def _object(prepared: own.Prepared) -> dict[str, Any]:
    plan = prepared.facts.plan
    return {
        "schema_version": SCHEMA_VERSION,
        "model": prepared.facts.files.name,
        "served_name": prepared.serving.served_name,
        "command": prepared.command,
        "missing": [{"what": one.what, "fix": one.fix} for one in prepared.shortages],
        "plan": None
        if plan is None
        else {
            "num_gpus": plan.num_gpus,
            "weight_bytes": plan.weight_bytes,
            "cache_bytes": plan.cache_bytes,
            "token_bytes": plan.token_bytes,
            "kernel_bytes": plan.kernel_bytes,
            "num_sequences": plan.num_sequences,
            "utilization": plan.utilization,
        },
    }
