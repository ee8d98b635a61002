"""What a model is shown: Kevin's protocol to the letter, and what fits of the history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import refine_samples as samples

from kevin_cli.errors import UsageError
from kevin_cli.refine.feedback import feedback
from kevin_cli.refine.prompt import Setting, opens_think, render
from kevin_cli.types import DeviceKind, Message, Outcome, Rules, Style, Trajectory, Turn, Verdict

INSTRUCTION = (
    "Replace pytorch operators in the given architecture with raw CUDA kernels, optimizing for performance on "
    "NVIDIA H100 (e.g. shared memory, kernel fusion, warp primitives, vectorization,...). Use "
    "torch.utils.cpp_extension.load_inline and name your optimized output architecture ModelNew. You're not "
    "allowed to use torch.nn (except for Parameter, containers, and init). The input and output have to be on "
    "CUDA device. Your answer must be the complete new architecture (no testing code, no other code): it will be "
    "evaluated and you will be given feedback on its correctness and speedup so you can keep iterating, trying to "
    "maximize the speedup. After your answer, summarize your changes in a few sentences."
)


def as_text(messages: tuple[Message, ...]) -> str:
    return "".join(f"=== {message.role} ===\n{message.content}\n" for message in messages)


def words(text: str) -> int:
    return len(text.split())


def told(index: int, verdict: Verdict, style: Style) -> Turn:
    return samples.turn(index, verdict, feedback(verdict, style))


def three_turns(style: Style, device: DeviceKind) -> Trajectory:
    build_failed = Verdict(outcome=Outcome.BUILD_FAILED, detail="nvcc failed", log='k.cu(3): error: expected a ";"')
    verdicts = [build_failed, samples.mismatch(), samples.correct(1.834, 1.21)]
    turns = [told(index, verdict, style) for index, verdict in enumerate(verdicts)]
    return samples.trajectory(*turns, device=device)


@pytest.mark.parametrize(
    ("style", "device"),
    [(Style.KEVIN, DeviceKind.CUDA), (Style.GENERAL, DeviceKind.CUDA), (Style.GENERAL_CPU, DeviceKind.CPU)],
)
def test_first_and_later_prompts_are_the_golden_ones(
    style: Style, device: DeviceKind, same_as_golden: Callable[[str, str], None]
) -> None:
    setting = Setting(device_name="NVIDIA H200" if device is DeviceKind.CUDA else "AMD EPYC 7B13")
    first = render(samples.trajectory(device=device), style, words, 100_000, setting)
    later = render(three_turns(style, device), style, words, 100_000, setting)
    same_as_golden(f"prompts/{style.value}-first.txt", as_text(first))
    same_as_golden(f"prompts/{style.value}-later.txt", as_text(later))


def test_kevin_is_asked_in_the_published_words() -> None:
    (message,) = render(samples.trajectory(), Style.KEVIN, words, 8192)
    assert message.role == "user"
    assert message.content.startswith(f"You are given the following architecture:\n{samples.LAYER_NORM.strip()}\n\n")
    assert f"{INSTRUCTION}Here's an example:\n\n" in message.content


def test_kevins_later_prompt_has_no_example_and_real_chat_turns() -> None:
    messages = render(three_turns(Style.KEVIN, DeviceKind.CUDA), Style.KEVIN, words, 100_000)
    assert [message.role for message in messages] == ["user", *["assistant", "user"] * 3]
    assert messages[0].content.endswith(f"{INSTRUCTION}\n\nHere are your previous attempts:\n")
    assert "example" not in messages[0].content


def test_reasoning_is_dropped_and_the_summary_kept() -> None:
    said = samples.said(f"private thoughts</think>\n\n{samples.answer(summary='Two warps a row.')}")
    one = samples.trajectory(samples.turn(0, samples.correct(1.2), completion=said))
    shown = render(one, Style.KEVIN, words, 8192)[1].content
    assert "private thoughts" not in shown
    assert shown == samples.answer(summary="Two warps a row.")


@pytest.mark.parametrize(
    "completion",
    [
        samples.said("still thinking", "length"),
        samples.said("thinking without an end"),
        samples.said(f"thoughts</think>{samples.answer()[:20]}", "length"),
    ],
)
def test_an_answer_without_an_end_is_an_empty_turn_for_kevin(completion: object) -> None:
    one = samples.trajectory(samples.turn(0, samples.mismatch(), completion=completion))  # type: ignore[arg-type]
    assert render(one, Style.KEVIN, words, 8192)[1] == Message("assistant", "")


def test_an_answer_without_an_end_is_named_so_for_other_models() -> None:
    cut = samples.said(samples.answer()[:20], "length")
    one = samples.trajectory(samples.turn(0, samples.mismatch(), completion=cut))
    assert render(one, Style.GENERAL, words, 8192)[1].content == "(no complete answer)"


def test_reasoning_that_the_server_returned_apart_is_not_shown() -> None:
    apart = samples.said(samples.answer(), reasoning="private thoughts")
    one = samples.trajectory(samples.turn(0, samples.correct(1.2), completion=apart))
    for style in Style:
        assert "private thoughts" not in as_text(render(one, style, words, 8192))


def test_whole_oldest_turns_are_dropped_until_the_prompt_fits() -> None:
    history = three_turns(Style.KEVIN, DeviceKind.CUDA)
    everything = render(history, Style.KEVIN, words, 100_000)
    sizes = [words(message.content) for message in everything]
    fits = sum(sizes) + 32 + 1
    assert render(history, Style.KEVIN, words, fits) == everything
    assert render(history, Style.KEVIN, words, fits - 1) == (everything[0], *everything[3:])
    assert render(history, Style.KEVIN, words, fits - sizes[1] - sizes[2] - 1) == (everything[0], *everything[5:])


def test_when_not_even_the_newest_turn_fits_the_first_prompt_is_asked_again() -> None:
    history = three_turns(Style.KEVIN, DeviceKind.CUDA)
    assert render(history, Style.KEVIN, words, 10) == render(samples.trajectory(), Style.KEVIN, words, 10)


def test_failures_of_the_server_and_of_the_judge_are_not_part_of_the_conversation() -> None:
    gone = samples.turn(0, Verdict(outcome=Outcome.NO_CODE, detail="gone"), completion=samples.said("", "error"))
    ours = samples.turn(1, Verdict(outcome=Outcome.INFRA, detail="the reference died"))
    assert len(render(samples.trajectory(gone, ours), Style.KEVIN, words, 8192)) == 1


def test_only_kevin_opens_with_a_think_tag() -> None:
    assert [style for style in Style if opens_think(style)] == [Style.KEVIN]


def test_the_rules_are_stated_to_other_models() -> None:
    strict = render(samples.trajectory(), Style.GENERAL, words, 8192, Setting(rules=Rules.KERNELS))[0].content
    loose = render(samples.trajectory(), Style.GENERAL, words, 8192, Setting(rules=Rules.LIBRARY))[0].content
    assert "must be in your own kernels" in strict
    assert "must be in your own kernels" not in loose


def test_a_source_with_fences_of_its_own_stays_inside_its_fence() -> None:
    one = samples.trajectory()
    source = 'class Model:\n    """\n    ```\n    example\n    ```\n    """\n'
    tricky = Trajectory(task=type(one.task)(**{**_fields(one.task), "source": source}), index=0)
    assert f"````python\n{source}````\n" in render(tricky, Style.GENERAL, words, 8192)[0].content


def _fields(task: object) -> dict[str, object]:
    return {name: getattr(task, name) for name in type(task).__dataclass_fields__}  # type: ignore[attr-defined]


def test_a_template_of_the_users_own_is_used(tmp_path: Path) -> None:
    (tmp_path / "general.j2").write_text("Speed this up:\n{{ source }}")
    text = render(samples.trajectory(), Style.GENERAL, words, 8192, Setting(templates=tmp_path))[0].content
    assert text.startswith("Speed this up:\nimport torch")


def test_a_broken_template_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "general.j2").write_text("{{ sauce }}")
    with pytest.raises(UsageError, match=r"general\.j2.*'sauce' is undefined"):
        render(samples.trajectory(), Style.GENERAL, words, 8192, Setting(templates=tmp_path))
