"""Kevin's protocol over four turns, as the model reads it: through a chat template, in real tokens, byte for byte.

The trajectory is made by the loop itself from what a model might say: a program that does not compile, a wrong one, a
correct one, and reasoning that was cut off at the limit of tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import refine_samples as samples
import tiny_model

from kevin_cli.policies.scripted import ScriptedPolicy
from kevin_cli.policies.transformers import prompt_text
from kevin_cli.refine.prompt import KEVIN_ANSWER_TOKENS, MARGIN_TOKENS, answer_budget, prompt_budget, render
from kevin_cli.refine.rollout import rollout
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Message, Outcome, Style, Trajectory, Verdict

THOUGHT = "Okay, so I need to write a kernel.\n```python\nnot this\n```\n</think>\n\n"
VERDICTS = {
    "0": Verdict(outcome=Outcome.BUILD_FAILED, detail="nvcc failed", log='k.cu(3): error: expected a ";"'),
    "1": samples.mismatch(),
    "2": samples.correct(1.834, 1.21),
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import transformers

    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_model.make_tokenizer(folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def trajectory() -> Trajectory:
    said = [samples.said(THOUGHT + samples.answer(mark)) for mark in "012"]
    cut_off = samples.said("Okay, let me think again. " * 20, "length")
    settings = RunSettings(style=Style.KEVIN, num_turns=4)
    judge = samples.MarkedJudge(VERDICTS)
    return asyncio.run(rollout(samples.task(), ScriptedPolicy([[*said, cut_off]]), judge, settings))


def test_the_loop_made_the_four_turns(trajectory: Trajectory) -> None:
    outcomes = [turn.verdict.outcome for turn in trajectory.turns]
    assert outcomes == [Outcome.BUILD_FAILED, Outcome.MISMATCH, Outcome.CORRECT, Outcome.NO_CODE]


def test_the_conversation_is_the_golden_one(
    trajectory: Trajectory, tokenizer: Any, same_as_golden: Callable[[str, str], None]
) -> None:
    messages = render(trajectory, Style.KEVIN, lambda text: len(tokenizer.tokenize(text)), 8192)
    same_as_golden("prompts/kevin-four-turns.txt", prompt_text(tokenizer, messages, opens_think=True) + "\n")


def conversation(trajectory: Trajectory, tokenizer: Any, budget: int) -> tuple[Message, ...]:
    return render(trajectory, Style.KEVIN, lambda text: len(tokenizer.tokenize(text)), budget)


def test_no_reasoning_is_left_and_the_new_one_is_opened(trajectory: Trajectory, tokenizer: Any) -> None:
    text = prompt_text(tokenizer, conversation(trajectory, tokenizer, 8192), opens_think=True)
    assert "Okay" not in text
    assert "not this" not in text
    assert text.endswith("<|im_start|>assistant\n<think>\n")
    assert text.count("<think>") == 1


def test_an_answer_without_an_end_is_the_end_token_alone(trajectory: Trajectory, tokenizer: Any) -> None:
    text = prompt_text(tokenizer, conversation(trajectory, tokenizer, 8192), opens_think=True)
    assert "<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\nYour previous answer failed to be parsed" in text


def test_a_template_that_opens_nothing_is_helped(trajectory: Trajectory, tokenizer: Any) -> None:
    import copy

    plain = copy.deepcopy(tokenizer)
    plain.chat_template = tokenizer.chat_template.replace("<think>\n", "")
    messages = conversation(trajectory, tokenizer, 8192)
    assert prompt_text(plain, messages, opens_think=True) == prompt_text(tokenizer, messages, opens_think=True)


def test_a_server_that_continues_the_opened_message_reads_the_same(trajectory: Trajectory, tokenizer: Any) -> None:
    """What vLLM makes of the messages that `HttpPolicy` sends: an assistant message to be continued."""
    messages = [*conversation(trajectory, tokenizer, 8192), Message("assistant", "<think>\n")]
    plain = [{"role": message.role, "content": message.content} for message in messages]
    continued = tokenizer.apply_chat_template(plain, tokenize=False, continue_final_message=True)
    assert continued == prompt_text(tokenizer, messages[:-1], opens_think=True)


@pytest.mark.parametrize("budget", [900, 1100, 1300, 1500, 8192])
def test_the_prompt_is_within_its_budget_in_real_tokens(trajectory: Trajectory, tokenizer: Any, budget: int) -> None:
    """Whole oldest turns go; the margin covers the roles and separators of the template."""
    messages = conversation(trajectory, tokenizer, budget)
    content = sum(len(tokenizer.tokenize(message.content)) for message in messages)
    assert content <= budget - MARGIN_TOKENS or len(messages) == 1
    kept = [m for m in messages if m.role == "assistant"]
    everything = [m for m in conversation(trajectory, tokenizer, 100_000) if m.role == "assistant"]
    assert kept == everything[len(everything) - len(kept) :]


def test_prompts_and_answers_fit_the_context_that_is_served() -> None:
    from kevin_cli.policies.serving.memory_plan import ANSWER_TOKENS, PROMPT_TOKENS

    assert prompt_budget(Style.KEVIN, None) == PROMPT_TOKENS == 8192
    assert answer_budget(Style.KEVIN) == ANSWER_TOKENS == KEVIN_ANSWER_TOKENS[1] == 22528
    assert KEVIN_ANSWER_TOKENS[0] == 16384


@pytest.mark.parametrize("made", ["missing", "empty", "strange"])
def test_a_folder_of_templates_that_would_change_nothing_is_refused(tmp_path: Path, made: str) -> None:
    from kevin_cli.errors import UsageError
    from kevin_cli.refine.prompt import refuse_templates

    folder = tmp_path / "templates"
    if made != "missing":
        folder.mkdir()
    if made == "strange":
        (folder / "kevn.j2").write_text("{{ source }}")
    with pytest.raises(UsageError, match="template"):
        refuse_templates(folder)


def test_a_folder_with_one_template_is_enough(tmp_path: Path) -> None:
    from kevin_cli.refine.prompt import refuse_templates

    (tmp_path / "general.j2").write_text("{{ source }}")
    refuse_templates(tmp_path)
    refuse_templates(None)
