"""Any OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, Ollama, `transformers serve`, hosted models.

The first contact is `endpoint.check`. After it nothing raises: a server that goes away, times out or answers rubbish
is a completion with `finish_reason == "error"`. Answers are streamed where the server can. Trajectories that ask
the same at the same time (the first turn of each) share one request with `n` choices, so that the prompt is read
and paid for once; a server that gives fewer is asked again for the rest. A server that is gone is waited for.

Not promised: that the server honours the seed or the temperature (some do not).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kevin_cli.policies.answers import failed
from kevin_cli.policies.dialect import Dialect
from kevin_cli.policies.endpoint import Server, client, place
from kevin_cli.policies.held import Held, ServerSwitch
from kevin_cli.policies.progress import Told
from kevin_cli.policies.request import Asked, FaultError, RefusedFieldError, request
from kevin_cli.policies.retry import RECONNECT_S, Fault, wait_s
from kevin_cli.policies.sharing import Around
from kevin_cli.policies.token_count import ServerCount
from kevin_cli.types import Completion, Limits, Message, Trajectory

CountTokens = Callable[[str], int]
Render = Callable[[Trajectory, CountTokens | None], tuple[Message, ...]]

MAX_RETRIES = 4
GATHER_S = 0.02
"""Equal questions within this time of each other share a request."""
CONTINUING_SERVERS = {"vllm", "sglang"}
"""Servers (`owned_by`) that can continue an opened assistant message; others rely on their chat template."""
GONE_IS_TOLD_S = 2.0


@dataclass(slots=True)
class _Waiter:
    """One trajectory that waits for its choice."""

    told: Told
    seed: int
    choice: asyncio.Future[Completion]


class HttpPolicy:
    """A model behind a URL. The key comes from OPENAI_API_KEY and is never shown or recorded."""

    def __init__(
        self,
        server: Server,
        render: Render,
        *,
        opens_think: bool = False,
        max_retries: int = MAX_RETRIES,
        reconnect_s: float = RECONNECT_S,
        around: Around | None = None,
    ) -> None:
        self.name = f"http {server.model.name} at {place(server.endpoint)}"
        self._server = server
        self._render = render
        self._continues = opens_think and server.model.owner in CONTINUING_SERVERS
        self._max_retries, self._reconnect_s = max_retries, reconnect_s
        self._around = around or Around()
        wants = self._around.logprobs
        self._dialect = Dialect(sends_logprobs=wants, sends_token_wish=wants and server.model.owner == "vllm")
        self._client = client(server.endpoint, max_retries=0)
        self._count = ServerCount(server)
        self._held = Held(ServerSwitch(server), self._around.sharing)
        self._groups: dict[tuple[object, ...], list[_Waiter]] = {}
        self._work: dict[int, asyncio.Task[None]] = {}
        """The request of each group, by the group's identity."""

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        start = time.monotonic()
        messages = await asyncio.to_thread(self._render, trajectory, self._count.counter)
        told = Told(trajectory, self._around.hear, starts_reasoning=self._continues)
        try:
            async with asyncio.timeout(limits.timeout_s) as limit:
                with self._held.extending(limit):
                    completion = await self._ask(messages, limits, told)
        except TimeoutError:
            completion = failed(self._server.model.name, f"no complete answer within {limits.timeout_s:g} s")
        return replace(completion, messages=messages, wall_s=time.monotonic() - start)

    async def pause(self) -> None:
        await self._held.pause()

    async def resume(self) -> None:
        await self._held.resume()

    async def close(self) -> None:
        work = list(self._work.values())
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await self._held.close()
        await self._client.close()

    # --- questions that are the same ------------------------------------------------------------------

    async def _ask(self, messages: tuple[Message, ...], limits: Limits, told: Told) -> Completion:
        """Join those who ask the same now, or be the first of them. The last to leave ends the request."""
        waiter = _Waiter(told, limits.seed, asyncio.get_running_loop().create_future())
        key = (messages, limits.max_tokens, limits.temperature)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = []
            task = asyncio.create_task(self._answer_group(key, group, Asked(messages=messages, limits=limits)))
            self._work[id(group)] = task
            task.add_done_callback(lambda _: self._work.pop(id(group), None))
        group.append(waiter)
        try:
            return await waiter.choice
        finally:
            group.remove(waiter)
            if not group and (task_of_group := self._work.get(id(group))):
                task_of_group.cancel()

    async def _answer_group(self, key: tuple[object, ...], group: list[_Waiter], asked: Asked) -> None:
        try:
            await asyncio.sleep(GATHER_S)
        finally:
            self._groups.pop(key)
        try:
            if self._dialect.sends_n and len(group) > 1:
                await self._answer_together(group, asked)
            await asyncio.gather(*(self._answer_one(waiter, asked) for waiter in list(group)))
        except Exception as fault:  # noqa: BLE001 - a fault of ours in a task belongs to whoever waits, or they wait for ever
            for waiter in group:
                if not waiter.choice.done():
                    waiter.choice.set_exception(fault)

    async def _answer_together(self, group: list[_Waiter], asked: Asked) -> None:
        """One request for all; choices that are missing, or all the same, leave their waiters for `_answer_one`."""
        members = list(group)
        completions = await self._until_answered(
            replace(asked, limits=replace(asked.limits, seed=members[0].seed)), [member.told for member in members]
        )
        if len(completions) < len(members) or len({c.text + c.reasoning for c in completions}) == 1:
            self._dialect.sends_n = False
            completions = completions[:1]
        for waiter, completion in zip(members, completions, strict=False):
            _hand_over(waiter, completion)

    async def _answer_one(self, waiter: _Waiter, asked: Asked) -> None:
        if waiter.choice.done():
            return
        own = replace(asked, limits=replace(asked.limits, seed=waiter.seed))
        _hand_over(waiter, (await self._until_answered(own, [waiter.told]))[0])

    # --- one request ----------------------------------------------------------------------------------

    async def _until_answered(self, asked: Asked, told: Sequence[Told]) -> list[Completion]:
        """Ask until there is an answer, or a fault that does not pass."""
        num_tries, gone_since = 0, None
        while True:
            try:
                return await self._once(asked, told)
            except RefusedFieldError:
                if len(told) > 1 and not self._dialect.sends_n:
                    return []
                continue
            except FaultError as error:
                fault = error.fault
            now = time.monotonic()
            gone_since = (gone_since or now) if fault.kind == "gone" else None
            num_tries += 1
            pause_s = wait_s(fault, num_tries, self._max_retries, now - (gone_since or now), self._reconnect_s)
            if pause_s is None:
                return [self._failure(fault)]
            self._tell(fault, pause_s, is_new=num_tries == 1)
            await asyncio.sleep(pause_s * random.uniform(1.0, 1.1))  # so that trajectories do not return in step

    async def _once(self, asked: Asked, told: Sequence[Told]) -> list[Completion]:
        if self._continues:
            asked = replace(asked, messages=(*asked.messages, Message("assistant", "<think>\n")), continues=True)
        async with self._held.asking():
            return await request(self._client, self._server.model.name, asked, self._dialect, told)

    def _failure(self, fault: Fault) -> Completion:
        if "content_filter" in fault.message or "content management policy" in fault.message:
            return Completion(text="", finish_reason="filtered", model=self._server.model.name)
        return failed(self._server.model.name, fault.message)

    def _tell(self, fault: Fault, pause_s: float, *, is_new: bool) -> None:
        """Whoever watches should know why nothing happens."""
        if self._around.notice and (is_new or pause_s > GONE_IS_TOLD_S):
            self._around.notice(f"{place(self._server.endpoint)}: {fault.message}; trying again in {pause_s:.0f} s")


def _hand_over(waiter: _Waiter, completion: Completion) -> None:
    if not waiter.choice.done():
        waiter.choice.set_result(completion)
