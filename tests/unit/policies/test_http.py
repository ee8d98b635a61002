"""The HTTP policy against a real server that produces every fault that was seen in the wild."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from policy_samples import TASK

from kevin_cli.errors import EndpointError
from kevin_cli.policies.answers import ServedModel
from kevin_cli.policies.endpoint import Server, check
from kevin_cli.policies.http import HttpPolicy
from kevin_cli.types import Completion, Limits, Message, Trajectory

ASKED = (Message("user", "make it faster"),)


def limits(timeout_s: float = 5.0, max_tokens: int = 64) -> Limits:
    return Limits(max_tokens=max_tokens, temperature=0.9, timeout_s=timeout_s, seed=3)


def render(trajectory: Trajectory, count: Any) -> tuple[Message, ...]:
    return ASKED


def propose(server: Any, timeout_s: float = 5.0, max_tokens: int = 64, **options: Any) -> Completion:
    async def ask() -> Completion:
        policy = HttpPolicy(await check(server.url), render, **options)
        try:
            return await policy.propose(Trajectory(task=TASK, index=0), limits(timeout_s, max_tokens))
        finally:
            await policy.close()

    return asyncio.run(ask())


def first_contact(url: str, model: str = "", timeout_s: float = 5.0) -> Server:
    return asyncio.run(check(url, model, timeout_s=timeout_s))


# --- first contact ---------------------------------------------------------------------------------


def test_the_model_name_is_asked_for(server: Any, chat_reply: Callable[..., Any]) -> None:
    server.chats = [chat_reply()]
    assert first_contact(server.url + "/").model.name == "tiny"
    propose(server)
    assert server.requests[0]["model"] == "tiny"


def test_a_refused_connection_is_one_line_with_a_hint() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EndpointError, match=r"no server answers at 127\.0\.0\.1") as caught:
        first_contact(f"http://127.0.0.1:{port}/v1")
    assert "refused" in caught.value.message or "failed" in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(EndpointError, match=r"no server answers at nowhere\.invalid"):
        first_contact("http://nowhere.invalid/v1")


def test_a_server_that_does_not_answer_is_not_waited_for(server: Any, reply: type) -> None:
    server.models = [reply({}, delay_s=30)]
    start = time.monotonic()
    with pytest.raises(EndpointError, match=r"did not answer within 0\.3 s"):
        first_contact(server.url, timeout_s=0.3)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "body",
    ["<html>nginx</html>", "", "[1, 2]", '{"data": 5}', '{"data": [{"id"', "null", b"\xff\xfe\x00"],
)
def test_rubbish_is_no_server(server: Any, reply: type, body: str | bytes) -> None:
    for content_type in ("application/json", "text/html"):
        server.models = [reply(body, content_type=content_type)]
        with pytest.raises(EndpointError, match="not with a list of models"):
            first_contact(server.url)


def test_a_server_that_is_not_http_is_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        port = listening.getsockname()[1]

        async def story() -> None:
            async def greet() -> None:
                connection, _ = await asyncio.to_thread(listening.accept)
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.close()

            greeting = asyncio.create_task(greet())
            try:
                await check(f"http://127.0.0.1:{port}/v1", timeout_s=5)
            finally:
                await greeting

        with pytest.raises(EndpointError, match="no server answers"):
            asyncio.run(story())


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "OPENAI_API_KEY"), (404, "/v1"), (429, "limits requests"), (500, "log")]
)
def test_a_refusal_carries_a_hint(server: Any, reply: type, status: int, hint: str) -> None:
    server.models = [reply({"error": {"message": "no"}}, status=status)]
    with pytest.raises(EndpointError, match=f"HTTP {status}: no") as caught:
        first_contact(server.url)
    assert hint in caught.value.hint


@pytest.mark.parametrize("status", [404, 500])
def test_a_broken_list_is_fine_when_the_named_model_answers(
    server: Any, reply: type, chat_reply: Callable[..., Any], status: int
) -> None:
    server.models, server.chats = [reply("no", status=status)], [chat_reply("H", finish_reason="length")]
    assert first_contact(server.url, "gpt-x").model.name == "gpt-x"
    assert (server.requests[0]["model"], server.requests[0]["max_tokens"]) == ("gpt-x", 1)


def test_a_named_model_whose_server_wants_other_fields_is_there(server: Any, reply: type) -> None:
    server.models, server.chats = [], [reply({"error": {"message": "use max_completion_tokens"}}, status=400)]
    assert first_contact(server.url, "o4").model.name == "o4"


@pytest.mark.parametrize(("status", "body"), [(404, "no such model"), (502, "bad gateway"), (200, "<html>")])
def test_a_broken_list_and_a_broken_model_is_no_server(server: Any, reply: type, status: int, body: str) -> None:
    server.models, server.chats = [], [reply(body, status=status)]
    with pytest.raises(EndpointError, match="chat/completions"):
        first_contact(server.url, "gpt-x")


def test_the_context_is_known_where_the_server_says_it(server: Any, reply: type) -> None:
    server.models = [reply({"data": [{"id": "a", "owned_by": "vllm", "max_model_len": 2048}]})]
    assert first_contact(server.url).model == ServedModel(name="a", owner="vllm", context_tokens=2048)


def test_several_models_have_to_be_chosen_from(server: Any, models_reply: Callable[..., Any]) -> None:
    server.models = [models_reply("a", "b")]
    with pytest.raises(EndpointError, match="lists 2 models") as caught:
        first_contact(server.url)
    assert "a, b" in caught.value.hint
    assert first_contact(server.url, "b").model.name == "b"


def test_a_server_with_no_model_is_named_so(server: Any, models_reply: Callable[..., Any]) -> None:
    server.models = [models_reply()]
    with pytest.raises(EndpointError, match="lists no model"):
        first_contact(server.url)


@pytest.mark.parametrize("text", ["localhost:8000", "ftp://host/v1", "http://", "rubbish"])
def test_what_is_not_a_url_is_refused(text: str) -> None:
    with pytest.raises(EndpointError, match="is not a URL"):
        first_contact(text)


def test_a_password_in_the_url_is_never_shown(server: Any, reply: type) -> None:
    server.models = [reply("rubbish")]
    with pytest.raises(EndpointError) as caught:
        first_contact(server.url.replace("://", "://me:hunter2@"))
    assert "hunter2" not in caught.value.message
    policy = HttpPolicy(Server(endpoint="http://me:hunter2@host:1/v1", model=ServedModel(name="m")), render)
    assert policy.name == "http m at host:1/v1"


# --- a turn ----------------------------------------------------------------------------------------


def test_a_good_answer_is_read_whole(server: Any, chat_reply: Callable[..., Any]) -> None:
    server.chats = [chat_reply("hello")]
    completion = propose(server)
    assert (completion.text, completion.finish_reason, completion.model) == ("hello", "stop", "tiny")
    assert (completion.num_prompt_tokens, completion.num_completion_tokens) == (11, 7)
    assert completion.messages == ASKED
    sent = server.requests[0]
    assert sent["messages"] == [{"role": "user", "content": "make it faster"}]
    assert (sent["max_tokens"], sent["temperature"], sent["seed"]) == (64, 0.9, 3)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(server: Any, chat_reply: Callable[..., Any], field: str) -> None:
    server.chats = [chat_reply("code", message={field: "thoughts"})]
    completion = propose(server)
    assert (completion.text, completion.reasoning) == ("code", "thoughts")


def test_reasoning_that_used_up_the_limit_is_a_cut_off_answer(server: Any, chat_reply: Callable[..., Any]) -> None:
    server.chats = [chat_reply(None, message={"reasoning": "long"}, finish_reason="length")]
    completion = propose(server)
    assert (completion.text, completion.finish_reason) == ("", "length")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("length", "length"), ("content_filter", "filtered"), (None, "stop"), ("eos", "stop"), (17, "stop")],
)
def test_finish_reasons_are_translated(server: Any, chat_reply: Callable[..., Any], reason: Any, expected: str) -> None:
    server.chats = [chat_reply("text", finish_reason=reason)]
    assert propose(server).finish_reason == expected


def test_text_in_parts_is_joined(server: Any, chat_reply: Callable[..., Any]) -> None:
    server.chats = [chat_reply([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}])]
    assert propose(server).text == "one two"


FAULTS: list[tuple[str, Any, str]] = [
    ("no choices", {"choices": []}, "no choice"),
    ("choices missing", {"id": "1"}, "no choice"),
    ("choices null", {"choices": None}, "no choice"),
    ("a choice that is a string", {"choices": ["x"]}, "no choice"),
    ("an error with status 200", {"error": {"message": "out of memory"}}, "out of memory"),
    ("an error as text", {"error": "busy"}, "busy"),
    ("empty content", {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}, "empty answer"),
    ("null content", {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}, "empty answer"),
    ("no message", {"choices": [{"finish_reason": "stop"}]}, "empty answer"),
    ("a refusal", {"choices": [{"message": {"content": None, "refusal": "no kernels"}}]}, "no kernels"),
    ("a page", "<html>gateway</html>", "not JSON"),
    ("nothing", "", "not JSON"),
    ("half of a body", '{"choices": [{"mess', "not JSON"),
    ("a list", "[]", "not a completion"),
]


@pytest.mark.parametrize(("body", "expected"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_an_unusable_answer_is_an_error_and_not_an_exception(
    server: Any, reply: type, body: Any, expected: str
) -> None:
    server.chats = [reply(body)]
    completion = propose(server)
    assert (completion.finish_reason, completion.text) == ("error", "")
    assert expected in completion.error
    assert "\n" not in completion.error


def test_missing_usage_leaves_the_counts_unknown(server: Any, reply: type) -> None:
    server.chats = [reply({"choices": [{"message": {"content": "x"}}], "usage": None})]
    completion = propose(server)
    assert (completion.text, completion.num_completion_tokens) == ("x", None)


def test_half_a_character_is_replaced(server: Any, reply: type) -> None:
    server.chats = [reply('{"choices": [{"message": {"content": "bad \\ud800 text"}}]}')]
    assert propose(server).text == "bad ? text"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_fault_is_retried(server: Any, reply: type, chat_reply: Callable[..., Any], status: int) -> None:
    server.chats = [reply({"error": "later"}, status=status, headers={"Retry-After-Ms": "10"}), chat_reply("hello")]
    assert propose(server).text == "hello"
    assert len(server.requests) == 2


def test_a_broken_connection_is_retried(server: Any, reply: type, chat_reply: Callable[..., Any]) -> None:
    server.chats = [reply(hangs_up=True), chat_reply("hello")]
    assert propose(server).text == "hello"


def test_a_fault_that_stays_is_an_error(server: Any, reply: type) -> None:
    server.chats = [reply({"error": {"message": "overloaded"}}, status=503, headers={"Retry-After-Ms": "1"})]
    completion = propose(server, max_retries=2)
    assert completion.error == "HTTP 503: overloaded"
    assert len(server.requests) == 3


def test_a_body_that_breaks_off_is_an_error(server: Any, chat_reply: Callable[..., Any]) -> None:
    broken = chat_reply("hello")
    broken.cuts_body_at = 20
    server.chats = [broken]
    completion = propose(server, max_retries=0)
    assert completion.finish_reason == "error"
    assert "connection" in completion.error


def test_a_context_that_is_too_long_is_told_and_not_retried(server: Any, reply: type) -> None:
    server.chats = [reply({"error": {"message": "maximum context length is 2048 tokens"}}, status=400)]
    completion = propose(server)
    assert "maximum context length" in completion.error
    assert len(server.requests) == 1


def test_a_slow_answer_ends_at_the_time_limit(server: Any, reply: type) -> None:
    server.chats = [reply({}, delay_s=30)]
    start = time.monotonic()
    completion = propose(server, timeout_s=0.4)
    assert time.monotonic() - start < 5
    assert completion.finish_reason == "error"
    assert "0.4 s" in completion.error or "in time" in completion.error


def test_a_server_that_wants_other_fields_gets_them(server: Any, reply: type, chat_reply: Callable[..., Any]) -> None:
    server.chats = [
        reply({"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead."}}, status=400),
        reply({"error": {"message": "Unsupported value: 'temperature' must be 1"}}, status=400),
        chat_reply("hello"),
    ]
    assert propose(server).text == "hello"
    assert server.requests[-1]["max_completion_tokens"] == 64
    assert "max_tokens" not in server.requests[-1]
    assert "temperature" not in server.requests[-1]


TOO_LONG = [
    "'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 2048 tokens "
    "and your request has 1048 input tokens (9000 > 2048 - 1048).",
    "This model's maximum context length is 2048 tokens. However, you requested 10048 tokens (1048 in the messages, "
    "9000 in the completion).",
    "Requested token count exceeds the model's maximum context length of 2048 tokens. You requested a total of 10048 "
    "tokens: 1048 tokens from the input messages and 9000 tokens for the completion.",
    "max_tokens is too large: 9000. This model supports at most 1000 completion tokens.",
]


@pytest.mark.parametrize("complaint", TOO_LONG)
def test_an_answer_limit_above_the_models_context_is_lowered(
    server: Any, reply: type, chat_reply: Callable[..., Any], complaint: str
) -> None:
    server.chats = [reply({"error": {"message": complaint}}, status=400), chat_reply("hello")]
    assert propose(server, max_tokens=9000).text == "hello"
    assert [sent["max_tokens"] for sent in server.requests] == [9000, 1000]


def test_a_prompt_that_leaves_no_room_is_an_error(server: Any, reply: type) -> None:
    complaint = "maximum context length is 2048 tokens and your request has 2047 input tokens"
    server.chats = [reply({"error": {"message": complaint}}, status=400)]
    assert complaint in propose(server).error
    assert len(server.requests) == 1


def test_the_key_comes_from_the_environment(
    server: Any, chat_reply: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.chats = [chat_reply()]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    propose(server)
    monkeypatch.delenv("OPENAI_API_KEY")
    propose(server)
    assert server.keys == ["Bearer sk-test", "Bearer none"]


@pytest.mark.parametrize(("owner", "continues"), [("vllm", True), ("sglang", True), ("library", False)])
def test_reasoning_is_opened_where_the_server_can_continue_a_message(
    server: Any, chat_reply: Callable[..., Any], models_reply: Callable[..., Any], owner: str, continues: bool
) -> None:
    server.models, server.chats = [models_reply("kevin", owner=owner)], [chat_reply()]
    propose(server, opens_think=True)
    sent = server.requests[0]
    assert (sent["messages"][-1] == {"role": "assistant", "content": "<think>\n"}) == continues
    assert sent.get("continue_final_message", False) == continues


def test_a_cancelled_turn_ends_at_once(server: Any, reply: type) -> None:
    server.chats = [reply({}, delay_s=30)]

    async def story() -> float:
        policy = HttpPolicy(await check(server.url), render)
        asking = asyncio.create_task(policy.propose(Trajectory(task=TASK, index=0), limits(60)))
        await asyncio.sleep(0.2)
        start = time.monotonic()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await policy.close()
        return time.monotonic() - start

    assert asyncio.run(story()) < 2
