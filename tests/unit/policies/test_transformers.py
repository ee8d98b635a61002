"""A model directory in process: batches over trajectories, seeds, what a completion carries, how rows end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_model
from policy_samples import TASK

from kevin_cli.policies import decoding
from kevin_cli.policies.intervals import overlap_s, total_s
from kevin_cli.policies.sharing import Around, Sharing
from kevin_cli.policies.transformers import TransformersPolicy
from kevin_cli.types import Completion, Limits, Message, Trajectory, Writing

LIMITS = Limits(max_tokens=24, temperature=0.9, timeout_s=60.0, seed=1)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.make(tmp_path_factory.mktemp("tiny") / "tiny")


def render(trajectory: Trajectory, count: Any) -> tuple[Message, ...]:
    return (Message("user", "make it faster, please" + " and again" * trajectory.index),)


def write(directory: Path, *asked: Limits, around: Around | None = None) -> list[Completion]:
    """One completion for each entry, all asked for at the same time."""

    async def story() -> list[Completion]:
        policy = TransformersPolicy.load(directory, render, around=around)
        try:
            calls = [policy.propose(Trajectory(task=TASK, index=i), limits) for i, limits in enumerate(asked)]
            return list(await asyncio.gather(*calls))
        finally:
            await policy.close()

    return asyncio.run(story())


def test_a_completion_carries_its_tokens_and_their_logprobs(directory: Path) -> None:
    (completion,) = write(directory, LIMITS)
    assert completion.token_ids is not None
    assert completion.logprobs is not None
    assert len(completion.token_ids) == len(completion.logprobs) == completion.num_completion_tokens == 24
    assert all(value <= 0 for value in completion.logprobs)
    assert completion.messages == render(Trajectory(task=TASK, index=0), None)


def test_the_logprobs_are_the_models_own(directory: Path) -> None:
    import torch
    import transformers

    (completion,) = write(directory, LIMITS)
    assert completion.token_ids is not None
    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    chat = [{"role": m.role, "content": m.content} for m in completion.messages]
    prompt = tokenizer(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))["input_ids"]
    ids = torch.tensor([[*prompt, *completion.token_ids]])
    with torch.inference_mode():
        own = model(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    expected = own.gather(1, ids[0, len(prompt) :, None])[:, 0].tolist()
    assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_seed_gives_the_same_tokens_whatever_else_is_in_the_batch(directory: Path) -> None:
    alone = write(directory, LIMITS)[0]
    among = write(directory, LIMITS, replace(LIMITS, seed=2), replace(LIMITS, seed=3))
    assert among[0].token_ids == alone.token_ids
    assert len({completion.token_ids for completion in among}) == 3


def test_rows_of_one_batch_end_each_at_its_own_limit(directory: Path) -> None:
    short, long = write(directory, replace(LIMITS, max_tokens=3), replace(LIMITS, max_tokens=40))
    assert (short.num_completion_tokens, long.num_completion_tokens) == (3, 40)
    assert {short.finish_reason, long.finish_reason} == {"length"}


def test_the_static_cache_of_a_gpu_changes_no_token(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not compiled here, but the same cache, kept over batches, with rows that fill up the batch."""
    asked = [replace(LIMITS, seed=seed, max_tokens=20 + seed) for seed in range(3)]
    plain = write(directory, *asked)

    async def story() -> list[list[Completion]]:
        policy = TransformersPolicy.load(directory, render)
        batches = []
        for _ in range(2):
            calls = [policy.propose(Trajectory(task=TASK, index=i), limits) for i, limits in enumerate(asked)]
            batches.append(list(await asyncio.gather(*calls)))
        assert policy._model.kevin_cache[0] == (4, decoding.LENGTH_STEP)
        await policy.close()
        return batches

    monkeypatch.setattr(decoding, "STATIC_CACHE_ON", ("cpu",))
    for batch in asyncio.run(story()):
        assert [c.token_ids for c in batch] == [c.token_ids for c in plain]
        for ours, theirs in zip(batch, plain, strict=True):
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_temperature_nought_takes_the_likeliest_token_whatever_the_seed(directory: Path) -> None:
    cold = replace(LIMITS, temperature=0.0)
    first, again = write(directory, cold)[0], write(directory, replace(cold, seed=9))[0]
    assert first.token_ids == again.token_ids


def test_a_row_stops_at_the_end_of_its_turn(directory: Path) -> None:
    """At a high temperature one of 1024 tokens is the end soon enough."""
    completions = write(directory, *[replace(LIMITS, temperature=5.0, max_tokens=400, seed=s) for s in range(16)])
    stopped = [c for c in completions if c.finish_reason == "stop"]
    assert stopped
    for completion in stopped:
        assert completion.token_ids is not None
        assert completion.token_ids.index(2) == len(completion.token_ids) - 1
        assert tiny_model.END not in completion.text


def test_out_of_time_is_an_error_that_keeps_what_was_written(directory: Path) -> None:
    (completion,) = write(directory, replace(LIMITS, max_tokens=6000, timeout_s=0.5))
    assert completion.finish_reason == "error"
    assert "within 0.5 s" in completion.error


def test_a_prompt_longer_than_the_context_is_an_error(directory: Path) -> None:
    async def story() -> Completion:
        policy = TransformersPolicy.load(directory, lambda t, c: (Message("user", "word " * 9000),))
        return await policy.propose(Trajectory(task=TASK, index=0), LIMITS)

    assert "the model reads 8192" in asyncio.run(story()).error


def test_cancelling_one_trajectory_leaves_the_others_alone(directory: Path) -> None:
    async def story() -> tuple[Completion, bool]:
        policy = TransformersPolicy.load(directory, render)
        lasting = asyncio.create_task(policy.propose(Trajectory(task=TASK, index=0), replace(LIMITS, max_tokens=100)))
        leaving = asyncio.create_task(policy.propose(Trajectory(task=TASK, index=1), replace(LIMITS, max_tokens=8000)))
        await asyncio.sleep(0.2)
        leaving.cancel()
        completion = await lasting
        await policy.close()
        return completion, leaving.cancelled()

    completion, is_cancelled = asyncio.run(story())
    assert is_cancelled
    assert completion.num_completion_tokens == 100


def test_a_watcher_hears_how_far_it_has_come(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kevin_cli.policies.progress.TELL_EVERY_S", 0.0)
    heard: list[Writing] = []
    write(directory, replace(LIMITS, max_tokens=64), around=Around(hear=heard.append))
    assert [writing.num_tokens for writing in heard] == [16, 32, 48, 64]
    assert all(writing.is_reasoning for writing in heard), "the template opens <think>, and noise never closes it"
    assert all(writing.tokens_per_s > 0 for writing in heard)


def test_nothing_is_generated_while_something_is_measured(directory: Path) -> None:
    async def story() -> tuple[Sharing, list[Completion], list[int]]:
        sharing = Sharing()
        policy = TransformersPolicy.load(directory, render, around=Around(sharing=sharing))
        sharing.attach(policy)
        calls = [policy.propose(Trajectory(task=TASK, index=i), replace(LIMITS, max_tokens=300)) for i in range(3)]
        writing = [asyncio.create_task(call) for call in calls]
        grown = []
        for _ in range(5):
            await asyncio.sleep(0.05)
            async with sharing.measuring():
                before = len(policy._writing[0].row.ids) if policy._writing else 0
                await asyncio.sleep(0.05)
                grown.append((len(policy._writing[0].row.ids) if policy._writing else 0) - before)
        completions = list(await asyncio.gather(*writing))
        await policy.close()
        return sharing, completions, grown

    sharing, completions, grown = asyncio.run(story())
    assert grown == [0] * 5
    assert overlap_s(sharing.log) == 0.0
    assert total_s(sharing.log, "timing") >= 0.25
    assert sum(one.kind == "generating" for one in sharing.log) > 1, "generation was parked and went on"
    assert all(completion.num_completion_tokens == 300 for completion in completions)


def test_time_spent_parked_is_not_the_completions(directory: Path) -> None:
    async def story() -> Completion:
        sharing = Sharing()
        policy = TransformersPolicy.load(directory, render, around=Around(sharing=sharing))
        sharing.attach(policy)
        limits = replace(LIMITS, max_tokens=200, timeout_s=2.0)
        writing = asyncio.create_task(policy.propose(Trajectory(task=TASK, index=0), limits))
        await asyncio.sleep(0.1)
        async with sharing.measuring():
            await asyncio.sleep(2.2)
        completion = await writing
        await policy.close()
        return completion

    start = time.monotonic()
    assert asyncio.run(story()).finish_reason == "length"
    assert time.monotonic() - start > 2.2
