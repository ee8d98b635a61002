"""The scripted policy says its lines and stops."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kevin_cli.errors import UsageError
from kevin_cli.policies.scripted import ScriptedPolicy, load_script
from kevin_cli.types import (
    Completion,
    Contract,
    DeviceKind,
    Limits,
    Outcome,
    Target,
    Task,
    Trajectory,
    Tree,
    Turn,
    Verdict,
)

TASK = Task(
    name="t",
    digest="0" * 64,
    target=Target(path="/m.py", class_name="Model", python="python3"),
    source="class Model: ...",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple"),
    outputs=Tree(kind="tuple"),
    output_specs=(),
    parameters=(),
    contract=Contract(device=DeviceKind.CPU, inputs=()),
    graph=None,
)


def says(policy: ScriptedPolicy, trajectory: int, turn: int) -> Completion:
    said = Completion(text="", finish_reason="stop", model="m")
    verdict = Verdict(outcome=Outcome.NO_CODE, detail="")
    turns = tuple(Turn(index=i, completion=said, candidate=None, verdict=verdict, feedback="") for i in range(turn))
    limits = Limits(max_tokens=1, temperature=1.0, timeout_s=1.0, seed=0)
    return asyncio.run(policy.propose(Trajectory(task=TASK, index=trajectory, turns=turns), limits))


def script(tmp_path: Path, plain: object) -> Path:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(plain))
    return path


def test_every_trajectory_has_its_own_lines(tmp_path: Path) -> None:
    policy = load_script(script(tmp_path, [["a", "b"], ["c"]]))
    assert [says(policy, 0, 0).text, says(policy, 0, 1).text, says(policy, 1, 0).text] == ["a", "b", "c"]


def test_a_flat_script_serves_every_trajectory(tmp_path: Path) -> None:
    policy = load_script(script(tmp_path, ["a", "b"]))
    assert [says(policy, 3, 0).text, says(policy, 5, 1).text] == ["a", "b"]


def test_a_line_may_say_how_it_ended(tmp_path: Path) -> None:
    policy = load_script(script(tmp_path, [{"text": "half", "finish_reason": "length", "reasoning": "hm"}]))
    said = says(policy, 0, 0)
    assert (said.text, said.finish_reason, said.reasoning) == ("half", "length", "hm")


def test_the_end_of_the_script_is_an_error_and_not_an_exception(tmp_path: Path) -> None:
    said = says(load_script(script(tmp_path, ["a"])), 0, 1)
    assert (said.finish_reason, said.error) == ("error", "the script has no more completions")


@pytest.mark.parametrize("plain", [{}, [], "text", 5, [5], [{"txt": "a"}], [{"text": "a", "finish_reason": "done"}]])
def test_what_is_not_a_script_is_refused(tmp_path: Path, plain: object) -> None:
    with pytest.raises(UsageError):
        load_script(script(tmp_path, plain))


def test_a_missing_script_and_a_broken_one_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the script"):
        load_script(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("[")
    with pytest.raises(UsageError, match="is not JSON"):
        load_script(tmp_path / "broken.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not JSON"):
        load_script(tmp_path / "binary.json")
