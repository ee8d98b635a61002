"""Batches begin when everybody waits, decoding is what the model says, and spoken words become token ids."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from train_samples import task

from kevin_cli.errors import UsageError
from kevin_cli.policies.scripted import ScriptedPolicy
from kevin_cli.types import DeviceKind, Limits, Message, Trajectory
from trainer.config import Model
from trainer.encode import Encoder
from trainer.engines import Batcher, EnginePolicy, Request, Sampled, SpokenPolicy
from trainer.models import load_model, load_tokenizer, refuse_other_end, whole_weights, with_adapters
from trainer.vllm import read_choice

RANDOM = Model(path="random", dtype="float32", gradient_checkpointing=False)
LIMITS = Limits(max_tokens=6, temperature=0.9, timeout_s=60.0, seed=3)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(load_tokenizer(RANDOM), opens_think=False)


def render(trajectory: Trajectory, count: Any) -> tuple[Message, ...]:
    return (Message("user", "write a kernel"),)


def test_nothing_is_decoded_while_somebody_present_is_being_judged() -> None:
    async def story() -> list[int]:
        batcher, sizes = Batcher(), list[int]()

        async def serve() -> None:
            while True:
                entries = await batcher.next_batch()
                sizes.append(len(entries))
                for _, future in entries:
                    future.set_result(Sampled((1,), (0.0,), "stop"))

        async def one(judged_s: float) -> None:
            for _ in range(2):
                await batcher.ask(Request((1,), LIMITS))
                await asyncio.sleep(judged_s)
            batcher.leave()

        server = asyncio.create_task(serve())
        for _ in range(3):
            batcher.enter()
        await asyncio.gather(one(0.0), one(0.05), one(0.1))
        server.cancel()
        return sizes

    assert asyncio.run(story()) == [3, 3]


def test_whoever_has_left_is_not_waited_for() -> None:
    async def story() -> int:
        batcher = Batcher()
        batcher.enter()
        batcher.enter()
        batcher.ask(Request((1,), LIMITS))
        batcher.leave()
        async with asyncio.timeout(5):
            return len(await batcher.next_batch())

    assert asyncio.run(story()) == 1


def test_decoding_gives_the_tokens_and_log_probabilities_of_the_synchronised_weights(encoder: Encoder) -> None:
    torch = pytest.importorskip("torch")
    from trainer.decode import DecodingEngine
    from trainer.models import empty_copy

    model = with_adapters(load_model(RANDOM), RANDOM.model_copy(update={"lora_rank": 4}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    engine = DecodingEngine(empty_copy(model, "cpu"), encoder, device=DeviceKind.CPU, batch=2, max_prompt_tokens=64)
    engine.sync(whole_weights(model))
    prompts = [encoder.plain("a kernel"), encoder.plain("another one, longer than that")]

    async def story() -> list[Sampled]:
        with engine.present(), engine.present():
            found = await asyncio.gather(*(engine.sample(Request(prompt, LIMITS)) for prompt in prompts))
        await engine.close()
        return list(found)

    for prompt, sampled in zip(prompts, asyncio.run(story()), strict=True):
        assert 1 <= len(sampled.token_ids) <= LIMITS.max_tokens
        ids = torch.tensor([[*prompt, *sampled.token_ids]])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / LIMITS.temperature
        own = logits.log_softmax(-1).gather(1, torch.tensor(sampled.token_ids)[:, None]).squeeze(1)
        assert sampled.logprobs == pytest.approx(own.tolist(), abs=1e-4)


def test_the_fixed_shapes_of_a_gpu_give_the_same_tokens_batch_after_batch(encoder: Encoder) -> None:
    """The path of a GPU, run on a CPU: static cache, one shape, rows that nobody asked for. Greedy."""
    from trainer.decode import DecodingEngine
    from trainer.models import empty_copy

    model = load_model(RANDOM)
    greedy = Limits(max_tokens=8, temperature=0.0, timeout_s=60.0, seed=0)
    prompts = [(5, 6, 7), tuple(range(9, 40)), (11,)]

    async def story(device: DeviceKind) -> list[list[tuple[int, ...]]]:
        engine = DecodingEngine(empty_copy(model, "cpu"), encoder, device=device, batch=4, max_prompt_tokens=48)
        engine.sync(whole_weights(model))
        found = []
        for batch in (prompts, prompts[:2], prompts[1:]):
            found.append([sampled.token_ids for sampled in engine._decode([Request(ids, greedy) for ids in batch])])
        return found

    dynamic, static = asyncio.run(story(DeviceKind.CPU)), asyncio.run(story(DeviceKind.CUDA))
    assert [len(batch) for batch in static] == [3, 2, 2]
    assert max(len(ids) for ids in static[0]) == 8
    assert static == dynamic


def test_a_tokenizer_that_ends_answers_otherwise_than_its_model_is_refused(encoder: Encoder) -> None:
    model = load_model(RANDOM)
    refuse_other_end(model, encoder.end_id)
    with pytest.raises(UsageError, match="the tokenizer's end token is 0, and the model's 1"):
        refuse_other_end(model, 0)
    model.generation_config.eos_token_id = [0, 1]
    refuse_other_end(model, 0)


def test_a_prompt_that_is_too_long_is_a_failed_completion_and_never_cut(encoder: Encoder) -> None:
    policy = EnginePolicy(None, encoder, render, max_prompt_tokens=2, name="m")  # type: ignore[arg-type]
    completion = asyncio.run(policy.propose(Trajectory(task=task(), index=0), LIMITS))
    assert completion.finish_reason == "error"
    assert "2 are allowed" in completion.error


def test_spoken_words_are_token_ids_that_decode_to_them(encoder: Encoder) -> None:
    text = "```python\nclass ModelNew: ...\n```\n\nDöne."
    policy = SpokenPolicy(ScriptedPolicy([[text]]), encoder, render)
    limits = Limits(max_tokens=500, temperature=1.0, timeout_s=1.0, seed=0)
    completion = asyncio.run(policy.propose(Trajectory(task=task(), index=0), limits))
    assert completion.token_ids is not None
    assert completion.token_ids[-1] == encoder.end_id
    assert encoder.text(completion.token_ids) == text
    assert completion.messages == render(Trajectory(task=task(), index=0), None)


def test_spoken_words_beyond_the_limit_are_cut_off_like_any_others(encoder: Encoder) -> None:
    policy = SpokenPolicy(ScriptedPolicy([["one two three four five six seven eight nine"]]), encoder, render)
    completion = asyncio.run(policy.propose(Trajectory(task=task(), index=0), LIMITS))
    assert completion.finish_reason == "length"
    assert len(completion.token_ids or ()) == 6


def test_kevins_prompt_opens_the_reasoning() -> None:
    opened = Encoder(load_tokenizer(RANDOM), opens_think=True)
    assert opened.prompt_text([Message("user", "x")]).endswith("assistant\n<think>\n")


@pytest.mark.parametrize("body", ["", "{}", '{"choices": []}', '{"choices": [{"text": "x"}]}', "<html>"])
def test_a_server_that_answers_something_else_is_a_failed_sample(body: str) -> None:
    assert read_choice(body).finish_reason == "error"


def test_a_servers_choice_has_ids_log_probabilities_and_why_it_ended() -> None:
    choice = {"token_ids": [5, 6], "logprobs": {"token_logprobs": [-0.1, -0.2]}, "finish_reason": "length"}
    assert read_choice(json.dumps({"choices": [choice]})) == Sampled((5, 6), (-0.1, -0.2), "length")
