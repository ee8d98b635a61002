"""Streams, several choices, log-probabilities, servers that leave and come back: the wire format in all its forms."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from fake_server import handler
from policy_samples import TASK

from kevin_cli.policies.answers import ServedModel
from kevin_cli.policies.endpoint import Server, check
from kevin_cli.policies.http import HttpPolicy
from kevin_cli.policies.intervals import overlap_s, total_s
from kevin_cli.policies.sharing import Around, Sharing
from kevin_cli.types import Completion, Limits, Message, Trajectory, Writing

ASKED = (Message("user", "make it faster"),)


def limits(seed: int = 3, timeout_s: float = 5.0) -> Limits:
    return Limits(max_tokens=64, temperature=0.9, timeout_s=timeout_s, seed=seed)


def own_question(trajectory: Trajectory, counter: Any) -> tuple[Message, ...]:
    return (Message("user", str(trajectory.index)),)


def propose(server: Any, count: int = 1, timeout_s: float = 5.0, **options: Any) -> list[Completion]:
    """The same question, asked by so many trajectories at once."""

    async def story() -> list[Completion]:
        policy = HttpPolicy(await check(server.url), lambda trajectory, counter: ASKED, **options)
        try:
            calls = [policy.propose(Trajectory(task=TASK, index=i), limits(i, timeout_s)) for i in range(count)]
            return list(await asyncio.gather(*calls))
        finally:
            await policy.close()

    return asyncio.run(story())


# --- streams ---------------------------------------------------------------------------------------


def test_a_stream_is_put_together(server: Any, sse_reply: Any, a_piece: Any) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}
    server.chats = [sse_reply(a_piece("hel"), ": ping", a_piece("lo"), a_piece(finish_reason="stop"), usage)]
    (completion,) = propose(server)
    assert (completion.text, completion.finish_reason) == ("hello", "stop")
    assert (completion.num_prompt_tokens, completion.num_completion_tokens) == (11, 7)
    assert server.requests[0]["stream"] is True
    assert server.requests[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_in_a_stream_is_kept_apart(server: Any, sse_reply: Any, a_piece: Any, field: str) -> None:
    thought = a_piece("", delta={"content": None, field: "thoughts"})
    server.chats = [sse_reply(thought, a_piece("code", finish_reason="stop"))]
    (completion,) = propose(server)
    assert (completion.text, completion.reasoning) == ("code", "thoughts")


def test_a_stream_without_an_end_mark_is_whole_when_it_gave_a_reason(server: Any, sse_reply: Any, a_piece: Any) -> None:
    """`transformers serve` sends no [DONE]."""
    server.chats = [sse_reply(a_piece("hello"), a_piece(finish_reason="length"), done=False)]
    (completion,) = propose(server)
    assert (completion.text, completion.finish_reason) == ("hello", "length")


def test_a_stream_that_breaks_off_is_asked_for_again(server: Any, sse_reply: Any, a_piece: Any) -> None:
    server.chats = [sse_reply(a_piece("hel"), done=False), sse_reply(a_piece("hello", finish_reason="stop"))]
    (completion,) = propose(server)
    assert completion.text == "hello"
    assert len(server.requests) == 2


def test_a_stream_that_always_breaks_off_is_an_error_that_says_where(server: Any, sse_reply: Any, a_piece: Any) -> None:
    server.chats = [sse_reply(a_piece("hel"), done=False)]
    (completion,) = propose(server, max_retries=0)
    assert completion.finish_reason == "error"
    assert completion.error == "the stream broke off after 3 characters"


STREAM_FAULTS: list[tuple[str, list[Any], str]] = [
    ("an error in the stream", [{"error": {"message": "engine died", "code": 500}}], "engine died"),
    ("half of a piece", ['data: {"choices": [{"del'], "not JSON"),
    ("a page in the stream", ["data: <html>"], "not JSON"),
    ("a list in the stream", ["data: [1]"], "no completion"),
    ("no choice at all", [{"choices": []}], "no choice"),
    ("an empty answer", [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}], "empty answer"),
    ("a refusal", [{"choices": [{"index": 0, "delta": {"refusal": "no"}, "finish_reason": "stop"}]}], "refused: no"),
]


@pytest.mark.parametrize(("pieces", "expected"), [row[1:] for row in STREAM_FAULTS], ids=[r[0] for r in STREAM_FAULTS])
def test_a_fault_in_a_stream_is_an_error_and_not_an_exception(
    server: Any, sse_reply: Any, pieces: list[Any], expected: str
) -> None:
    server.chats = [sse_reply(*pieces)]
    (completion,) = propose(server, max_retries=0)
    assert completion.finish_reason == "error"
    assert expected in completion.error


def test_a_filter_in_the_middle_of_a_stream_is_a_filtered_answer(server: Any, sse_reply: Any, a_piece: Any) -> None:
    server.chats = [sse_reply(a_piece("hel"), a_piece(finish_reason="content_filter"))]
    assert propose(server)[0].finish_reason == "filtered"


def test_a_filter_that_refuses_the_prompt_is_a_filtered_answer(server: Any, reply: Any) -> None:
    server.chats = [reply({"error": {"message": "blocked", "code": "content_filter"}}, status=400)]
    server.chats[0].body["error"]["message"] = "the prompt triggered our content management policy"
    assert propose(server)[0].finish_reason == "filtered"


def test_a_server_that_can_not_stream_is_asked_for_the_whole(server: Any, reply: Any, chat_reply: Any) -> None:
    server.chats = [
        reply({"error": {"message": "stream_options is not allowed"}}, status=400),
        reply({"error": {"message": "streaming is not supported"}}, status=400),
        chat_reply("hello"),
    ]
    assert propose(server)[0].text == "hello"
    assert "stream" not in server.requests[-1]
    assert "stream_options" not in server.requests[-1]


def test_a_watcher_hears_the_stream(server: Any, sse_reply: Any, a_piece: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kevin_cli.policies.progress.TELL_EVERY_S", 0.0)
    heard: list[Writing] = []
    pieces = [a_piece("<think>hm"), a_piece(" well</think>"), a_piece("code", finish_reason="stop")]
    server.chats = [sse_reply(*pieces)]
    propose(server, around=Around(hear=heard.append))
    assert [writing.num_tokens for writing in heard] == [1, 2, 3]
    assert [writing.is_reasoning for writing in heard] == [True, False, False]
    assert heard[-1].tail.endswith("code")


# --- several choices -------------------------------------------------------------------------------


def test_equal_questions_share_one_request(server: Any, sse_reply: Any, a_piece: Any) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 30}}
    ends = [a_piece(index=i, finish_reason="stop") for i in range(3)]
    server.chats = [sse_reply(a_piece("a", 0), a_piece("bb", 2), a_piece("ccc", 1), *ends, usage)]
    completions = propose(server, 3)
    assert [c.text for c in completions] == ["a", "ccc", "bb"]
    assert [request["n"] for request in server.requests] == [3]
    assert sum(c.num_prompt_tokens or 0 for c in completions) == 10, "the prompt was read and paid for once"
    assert sum(c.num_completion_tokens or 0 for c in completions) == 30


def test_a_server_that_ignores_n_is_asked_for_the_rest(server: Any, sse_reply: Any, a_piece: Any) -> None:
    """llama.cpp and `transformers serve` give one choice, whatever is asked for."""
    server.chats = [sse_reply(a_piece(text, finish_reason="stop")) for text in ("a", "b", "c")]
    assert sorted(c.text for c in propose(server, 3)) == ["a", "b", "c"]
    assert [request.get("n") for request in server.requests] == [3, None, None]
    assert len({request["seed"] for request in server.requests}) == 3


def test_choices_that_are_all_the_same_are_one_choice(server: Any, sse_reply: Any, a_piece: Any) -> None:
    """Some servers give every choice the same seed."""
    same = [a_piece("a", i, finish_reason="stop") for i in range(2)]
    server.chats = [sse_reply(*same), sse_reply(a_piece("b", finish_reason="stop"))]
    assert [c.text for c in propose(server, 2)] == ["a", "b"]


def test_a_server_that_refuses_n_is_asked_one_by_one(server: Any, reply: Any, chat_reply: Any) -> None:
    server.chats = [reply({"error": {"message": "'n' must be 1"}}, status=400), chat_reply("a")]
    assert [c.text for c in propose(server, 2)] == ["a", "a"]
    assert [request.get("n") for request in server.requests] == [2, None, None]


def test_different_questions_are_different_requests(server: Any, chat_reply: Any) -> None:
    async def story() -> None:
        policy = HttpPolicy(
            await check(server.url), lambda trajectory, counter: (Message("user", str(trajectory.index)),)
        )
        await asyncio.gather(*(policy.propose(Trajectory(task=TASK, index=i), limits()) for i in range(2)))
        await policy.close()

    server.chats = [chat_reply()]
    asyncio.run(story())
    assert [request.get("n") for request in server.requests] == [None, None]


def test_a_fault_reaches_all_who_share_a_request(server: Any, reply: Any) -> None:
    server.chats = [reply({"error": {"message": "broken"}}, status=500)]
    assert [c.error for c in propose(server, 3, max_retries=0)] == ["HTTP 500: broken"] * 3


# --- log-probabilities -----------------------------------------------------------------------------


def listed(text: str, values: list[float], **choice: Any) -> dict[str, Any]:
    return {"logprobs": {"content": [{"token": text, "logprob": value} for value in values]}, **choice}


def test_tokens_and_logprobs_are_read_where_they_are_wanted(server: Any, sse_reply: Any, a_piece: Any) -> None:
    pieces = [
        a_piece("a", **listed("a", [-0.5], token_ids=[17])),
        a_piece("b", **listed("b", [-0.25], token_ids=[18]), finish_reason="stop"),
    ]
    server.chats = [sse_reply(*pieces)]
    server.models[0].body["data"][0]["owned_by"] = "vllm"
    (completion,) = propose(server, around=Around(logprobs=True))
    assert (completion.token_ids, completion.logprobs) == ((17, 18), (-0.5, -0.25))
    assert server.requests[0]["logprobs"] is True
    assert server.requests[0]["return_token_ids"] is True


def test_they_are_not_asked_for_otherwise(server: Any, chat_reply: Any) -> None:
    """llama.cpp is seven times slower with them."""
    server.chats = [chat_reply()]
    propose(server)
    assert "logprobs" not in server.requests[0]


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": [{"token": "a", "logprob": None}]}, 5])
def test_a_server_without_logprobs_leaves_them_unknown(server: Any, chat_reply: Any, logprobs: Any) -> None:
    server.chats = [chat_reply("a", logprobs=logprobs)]
    (completion,) = propose(server, around=Around(logprobs=True))
    assert (completion.text, completion.logprobs) == ("a", None)


# --- back-off, and servers that leave --------------------------------------------------------------


def test_a_rate_limit_is_waited_for_as_long_as_the_server_says(server: Any, reply: Any, chat_reply: Any) -> None:
    notices: list[str] = []
    server.chats = [reply({"error": "slow down"}, status=429, headers={"Retry-After": "0.3"}), chat_reply("hello")]
    start = time.monotonic()
    assert propose(server, around=Around(notice=notices.append))[0].text == "hello"
    assert time.monotonic() - start >= 0.3
    assert "HTTP 429" in notices[0]


def test_a_quota_that_is_used_up_is_not_waited_for(server: Any, reply: Any) -> None:
    server.chats = [reply({"error": {"message": "insufficient_quota: see your plan"}}, status=429)]
    assert "insufficient_quota" in propose(server)[0].error
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_final(server: Any, reply: Any, status: int) -> None:
    server.chats = [reply({"error": {"message": "no"}}, status=status)]
    assert propose(server)[0].error == f"HTTP {status}: no"
    assert len(server.requests) == 1


def test_a_server_that_comes_back_is_found_again(server: Any, chat_reply: Any) -> None:
    async def story() -> tuple[Completion, list[str]]:
        notices: list[str] = []
        known = await check(server.url)
        server.listening.shutdown()
        server.listening.server_close()
        policy = HttpPolicy(known, lambda trajectory, counter: ASKED, around=Around(notice=notices.append))
        asking = asyncio.create_task(policy.propose(Trajectory(task=TASK, index=0), limits(timeout_s=20)))
        await asyncio.sleep(0.4)
        again = ThreadingHTTPServer(("127.0.0.1", server.listening.server_port), handler(server))
        threading.Thread(target=again.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        completion = await asking
        await policy.close()
        again.shutdown()
        again.server_close()
        return completion, notices

    server.chats = [chat_reply("back")]
    completion, notices = asyncio.run(story())
    assert completion.text == "back"
    assert "connection" in notices[0]


def test_a_server_that_stays_away_is_an_error(server: Any) -> None:
    known = Server(endpoint="http://127.0.0.1:9/v1", model=ServedModel(name="tiny"))

    async def story() -> Completion:
        policy = HttpPolicy(known, lambda trajectory, counter: ASKED, reconnect_s=0.6)
        return await policy.propose(Trajectory(task=TASK, index=0), limits(timeout_s=20))

    assert "the connection to the server failed" in asyncio.run(story()).error


# --- counting and keeping quiet ----------------------------------------------------------------------


def test_the_servers_own_tokenizer_counts(server: Any, chat_reply: Any, reply: Any) -> None:
    counted: list[int] = []

    def render(trajectory: Trajectory, counter: Callable[[str], int] | None) -> tuple[Message, ...]:
        assert counter is not None
        counted.extend(counter(text) for text in ("abc", "abc", "abcde"))
        return ASKED

    async def story() -> None:
        policy = HttpPolicy(await check(server.url), render)
        await policy.propose(Trajectory(task=TASK, index=0), limits())
        await policy.close()

    server.models[0].body["data"][0]["owned_by"] = "vllm"
    server.other = lambda path, body: reply({"count": len(body["prompt"])})
    server.chats = [chat_reply()]
    asyncio.run(story())
    assert counted == [3, 3, 5]
    assert server.calls == ["/tokenize", "/tokenize"], "equal texts are counted once"


def test_a_server_that_does_not_count_is_guessed_at(server: Any, chat_reply: Any) -> None:
    server.models[0].body["data"][0]["owned_by"] = "vllm"
    server.chats = [chat_reply()]
    counted: list[int] = []

    async def story() -> None:
        policy = HttpPolicy(await check(server.url), lambda t, counter: (counted.append(counter("a" * 40)), ASKED)[1])  # type: ignore[misc, func-returns-value]
        await policy.propose(Trajectory(task=TASK, index=0), limits())
        await policy.close()

    asyncio.run(story())
    assert counted == [10]


def shared(server: Any, chat: Any, **options: Any) -> tuple[Sharing, list[Completion], list[float]]:
    """Two trajectories propose while something is measured three times; returns how long each pause took."""

    async def story() -> tuple[Sharing, list[Completion], list[float]]:
        sharing = Sharing()
        policy = HttpPolicy(
            await check(server.url), lambda t, c: (Message("user", str(t.index)),), around=Around(sharing=sharing)
        )
        sharing.attach(policy)
        asking = [asyncio.create_task(policy.propose(Trajectory(task=TASK, index=i), limits())) for i in range(2)]
        waited = []
        for _ in range(3):
            await asyncio.sleep(0.1)
            start = time.monotonic()
            async with sharing.measuring():
                waited.append(time.monotonic() - start)
                await asyncio.sleep(0.05)
        completions = list(await asyncio.gather(*asking))
        await policy.close()
        return sharing, completions, waited

    chat.delay_s = 0.5
    server.chats = [chat]
    return asyncio.run(story())


def test_vllm_is_paused_through_its_api_while_something_is_measured(server: Any, chat_reply: Any, reply: Any) -> None:
    server.other = lambda path, body: reply({"status": "ok"})
    sharing, completions, waited = shared(server, chat_reply("hello"))
    assert [c.text for c in completions] == ["hello", "hello"]
    assert [path.split("?")[0] for path in server.calls] == ["/pause", "/resume"] * 3
    assert "mode=keep" in server.calls[0]
    assert max(waited) < 0.4, "nobody waited for an answer to end"
    assert overlap_s(sharing.log) == 0.0
    assert total_s(sharing.log, "generating") > 0.2


def test_a_server_that_can_not_pause_is_left_to_finish(server: Any, chat_reply: Any) -> None:
    sharing, completions, waited = shared(server, chat_reply("hello"))
    assert [c.text for c in completions] == ["hello", "hello"]
    assert server.calls == ["/pause?mode=keep&clear_cache=false"]
    assert waited[0] > 0.2, "the first measurement waited until the answers were there"
    assert overlap_s(sharing.log) == 0.0


def test_a_question_that_nobody_waits_for_any_more_is_dropped(server: Any, chat_reply: Any) -> None:
    """The limit of time ended the search: the winner's second judgement must not wait for a late answer."""

    async def story() -> float:
        sharing = Sharing()
        policy = HttpPolicy(await check(server.url), lambda t, c: ASKED, around=Around(sharing=sharing))
        sharing.attach(policy)
        asking = [asyncio.create_task(policy.propose(Trajectory(task=TASK, index=i), limits())) for i in range(2)]
        await asyncio.sleep(0.3)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        start = time.monotonic()
        async with sharing.measuring():
            waited_s = time.monotonic() - start
        await policy.close()
        return waited_s

    server.chats = [chat_reply("late")]
    server.chats[0].delay_s = 30
    assert asyncio.run(story()) < 2


def test_one_who_leaves_takes_nothing_from_the_others(server: Any, sse_reply: Any, a_piece: Any) -> None:
    async def story() -> Completion:
        policy = HttpPolicy(await check(server.url), lambda t, c: ASKED)
        asking = [asyncio.create_task(policy.propose(Trajectory(task=TASK, index=i), limits())) for i in range(2)]
        await asyncio.sleep(0.3)
        asking[0].cancel()
        completion = await asking[1]
        await policy.close()
        return completion

    server.chats = [sse_reply(a_piece("a", 0, finish_reason="stop"), a_piece("b", 1, finish_reason="stop"))]
    server.chats[0].delay_s = 0.8
    assert asyncio.run(story()).text == "b"


def test_nothing_is_asked_while_something_is_measured(server: Any, chat_reply: Any, reply: Any) -> None:
    async def story() -> list[int]:
        sharing, seen = Sharing(), []
        policy = HttpPolicy(await check(server.url), lambda t, c: ASKED, around=Around(sharing=sharing))
        sharing.attach(policy)
        async with sharing.measuring():
            asking = asyncio.create_task(policy.propose(Trajectory(task=TASK, index=0), limits(timeout_s=0.4)))
            await asyncio.sleep(0.6)
            seen.append(len(server.requests))
        completion = await asking
        await policy.close()
        assert completion.text == "hello", "the time for which it was held is not the completion's"
        return [*seen, len(server.requests)]

    server.other = lambda path, body: reply({"status": "ok"})
    server.chats = [chat_reply("hello")]
    assert asyncio.run(story()) == [0, 1]


def test_a_server_is_not_left_silent(server: Any, chat_reply: Any, reply: Any) -> None:
    """The run is over, or was interrupted, in the middle of a measurement."""

    async def story() -> None:
        policy = HttpPolicy(await check(server.url), lambda t, c: ASKED, around=Around(sharing=Sharing()))
        await policy.pause()
        await policy.close()

    server.other = lambda path, body: reply({"status": "ok"})
    asyncio.run(story())
    assert [path.split("?")[0] for path in server.calls] == ["/pause", "/resume"]


def test_a_server_with_a_full_card_sleeps_instead(server: Any, reply: Any) -> None:
    async def story() -> None:
        from dataclasses import replace

        known = replace(await check(server.url), sleeps=True)
        policy = HttpPolicy(known, lambda t, c: ASKED, around=Around(sharing=Sharing()))
        await policy.pause()
        await policy.resume()
        await policy.close()

    server.other = lambda path, body: reply({"status": "ok"})
    asyncio.run(story())
    assert server.calls == ["/sleep?level=1&mode=wait", "/wake_up"]
