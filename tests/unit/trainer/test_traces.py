"""The warm start learns from what was right, in the protocol it will be asked in, and from nothing held out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from train_samples import WRONG, correct

from kevin_cli.refine.extract import extract
from kevin_cli.refine.journal import open_run
from kevin_cli.refine.prompt import Setting, renderer
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Candidate, Completion, DeviceKind, Rules, Style, Turn, Verdict
from trainer.generate import as_task, draw
from trainer.traces import Sample, from_runs, plain_samples, write_chat

SETTING = Setting(rules=Rules.KERNELS)


def render_in(style: Style):  # type: ignore[no-untyped-def]
    return renderer(style, 8192, SETTING)


def record(root: Path, verdicts: Sequence[Verdict], *, held_out: bool = False) -> Path:
    (sketch,) = draw(1, seed=2, device=DeviceKind.CUDA, held_out=held_out)
    settings = RunSettings(style=Style.GENERAL, num_turns=len(verdicts))
    journal = open_run(as_task(sketch, DeviceKind.CUDA), policy="embedded", settings=settings, root=root)
    for index, verdict in enumerate(verdicts):
        text = f"Loads {index} values at once.\n\n```python\nclass ModelNew:\n    x = {index}\n```\n"
        completion = Completion(text=text, finish_reason="stop", model="embedded")
        candidate = Candidate(source="x", digest=str(index))
        turn = Turn(
            index=index, completion=completion, candidate=candidate, verdict=verdict, feedback=f"feedback {index}"
        )
        journal.record(0, turn)
    return journal.folder


def samples(folder: Path, style: Style = Style.GENERAL) -> list[Sample]:
    return list(from_runs([folder], render_in(style), len, style))


def test_only_turns_that_were_right_and_no_slower_than_before_are_kept(tmp_path: Path) -> None:
    folder = record(tmp_path, [WRONG, correct(2.0), correct(1.0), correct(2.5)])
    assert ["x = 1" in s.completion or "x = 3" in s.completion for s in samples(folder)] == [True, True]


def test_a_later_turn_is_asked_with_everything_before_it(tmp_path: Path) -> None:
    first, later = samples(record(tmp_path, [correct(1.0), correct(2.0)]))
    assert len(first.messages) == 1
    assert [message.role for message in later.messages] == ["user", "assistant", "user"]
    assert later.messages[-1].content == "feedback 0"


def test_held_out_sequences_are_never_learned_from(tmp_path: Path) -> None:
    assert samples(record(tmp_path, [correct(2.0)], held_out=True)) == []
    sketches = draw(1, seed=1, device=DeviceKind.CUDA, held_out=True)
    with pytest.raises(ValueError, match="is held out"):
        list(plain_samples(sketches, DeviceKind.CUDA, render_in(Style.GENERAL), len, 0))


def test_in_kevins_protocol_a_trace_reasons_then_answers_then_summarises(tmp_path: Path) -> None:
    (sample,) = samples(record(tmp_path, [correct(2.0)]), Style.KEVIN)
    assert sample.completion.startswith("Okay, Loads 0 values at once.\n</think>\n\n```python\n")
    assert sample.completion.endswith("```\n\nLoads 0 values at once.")
    said = Completion(text=sample.completion, finish_reason="stop", model="m")
    assert isinstance(extract(said, Style.KEVIN), Candidate)


def test_a_plain_answer_holds_a_candidate_and_its_prompt_the_module() -> None:
    sketches = draw(20, seed=3, device=DeviceKind.CUDA, held_out=False)
    for sketch, sample in zip(
        sketches, plain_samples(sketches, DeviceKind.CUDA, render_in(Style.GENERAL), len, 0), strict=True
    ):
        said = Completion(text=sample.completion, finish_reason="stop", model="m")
        assert isinstance(extract(said, Style.GENERAL), Candidate)
        assert ", ".join(sketch.names) in sample.messages[0].content


def test_chat_data_is_one_conversation_a_line_with_the_answer_last(tmp_path: Path) -> None:
    sketches = draw(3, seed=3, device=DeviceKind.CUDA, held_out=False)
    path = tmp_path / "chat.jsonl"
    assert write_chat(plain_samples(sketches, DeviceKind.CUDA, render_in(Style.GENERAL), len, 0), path) == 3
    line = json.loads(path.read_text().splitlines()[0])
    assert [message["role"] for message in line["messages"]] == ["user", "assistant"]
    assert line["source"] == "plain"
