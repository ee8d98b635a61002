"""Trajectories of the embedded proposer as chat data in Kevin's protocol."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kevin_cli.policies.embedded.traces import chat_line, chat_samples
from kevin_cli.refine.extract import extract
from kevin_cli.refine.prompt import count_characters, render
from kevin_cli.types import Candidate, Completion, Message, Style, Trajectory
from tests.unit.embedded.test_policy import _after, _correct, _failed, _softmax_task

KEVIN = partial(render, style=Style.KEVIN, count_tokens=count_characters, budget_tokens=100_000)


def _trajectory() -> Trajectory:
    trajectory = Trajectory(task=_softmax_task("cuda"), index=0)
    for verdict in (_correct(1.2), _failed(), _correct(1.5)):
        trajectory = _after(trajectory, verdict)
    return trajectory


def test_a_prompt_is_what_a_model_in_the_same_place_would_have_read() -> None:
    trajectory = _trajectory()
    samples = chat_samples(trajectory, KEVIN, opens_think=True)
    assert [len(sample.prompt) for sample in samples] == [1, 3, 5]
    assert [(sample.is_correct, sample.speedup, sample.is_gain) for sample in samples] == [
        (True, 1.2, True),
        (False, 0.0, False),
        (True, 1.5, True),
    ]


def test_an_answer_is_read_back_as_the_candidate_that_was_judged() -> None:
    trajectory = _trajectory()
    for sample, turn in zip(chat_samples(trajectory, KEVIN, opens_think=True), trajectory.turns, strict=True):
        reasoning, _, answer = sample.answer.partition("</think>")
        assert "<think>" not in sample.answer
        assert answer.strip().startswith(reasoning.strip())
        completion = Completion(text=sample.answer, finish_reason="stop", model="student")
        found = extract(completion, Style.KEVIN)
        assert isinstance(found, Candidate)
        assert turn.candidate is not None
        assert found.source.strip() == turn.candidate.source.strip()


def test_turns_that_somebody_else_wrote_are_left_out() -> None:
    trajectory = _trajectory()
    foreign = Candidate(source="class ModelNew: pass", digest="")
    first, *rest = trajectory.turns
    turns = (replace(first, candidate=foreign), *rest)
    other = Trajectory(task=trajectory.task, index=0, turns=turns)
    assert len(chat_samples(other, KEVIN, opens_think=True)) == 2


def test_a_line_has_the_form_that_trainers_read() -> None:
    sample = chat_samples(_trajectory(), lambda trajectory: (Message("user", "write it"),), opens_think=False)[0]
    line = chat_line(sample)
    assert line["prompt"] == [{"role": "user", "content": "write it"}]
    assert line["completion"][0]["content"].count("```") == 2
