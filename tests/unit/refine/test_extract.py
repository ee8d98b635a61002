"""From a completion's text to its candidate, or to the reason why there is none."""

from __future__ import annotations

import hashlib

import pytest
import refine_samples as samples

from kevin_cli.refine.extract import NoCode, defines_model_new, extract
from kevin_cli.types import Completion, Style

PROGRAM = samples.program("x")
OTHER = samples.program("other")
BROKEN = "class ModelNew(:\n    pass\n"


def block(body: str = PROGRAM, tag: str = "python") -> str:
    return f"```{tag}\n{body}```"


FOUND = [
    ("kevin: the block after the reasoning", Style.KEVIN, f"thoughts</think>\n{block()}\nDone.", PROGRAM),
    ("kevin: a draft in the reasoning is not taken", Style.KEVIN, f"{block(OTHER)}</think>{block()}", PROGRAM),
    ("kevin: the first of two", Style.KEVIN, f"t</think>{block()}\n{block(OTHER)}", PROGRAM),
    ("kevin: a cpp tag", Style.KEVIN, f"t</think>{block(tag='cpp')}", PROGRAM),
    ("kevin: a cuda tag on its own line", Style.KEVIN, f"t</think>```\ncuda\n{PROGRAM}```", PROGRAM),
    ("kevin: no tag", Style.KEVIN, f"t</think>{block(tag='')}", PROGRAM),
    ("kevin: a syntax error is for the judge", Style.KEVIN, f"t</think>{block(BROKEN)}", BROKEN),
    ("general: an answer without reasoning", Style.GENERAL, block(), PROGRAM),
    ("general: reasoning in tags", Style.GENERAL, f"<think>{block(OTHER)}</think>{block()}", PROGRAM),
    ("general: reasoning in other tags", Style.GENERAL, f"<thinking>{block(OTHER)}</thinking>{block()}", PROGRAM),
    ("general: an end tag alone", Style.GENERAL, f"{block(OTHER)}\n</think>\n{block()}", PROGRAM),
    ("general: the last block with ModelNew", Style.GENERAL, f"{block(OTHER)}\n{block()}", PROGRAM),
    ("general: a usage example after it", Style.GENERAL, f"{block()}\n{block('m = ModelNew()')}", PROGRAM),
    ("general: a C++ excerpt after it", Style.GENERAL, f"{block()}\n{block('int x;', 'cpp')}", PROGRAM),
    ("general: no fences at all", Style.GENERAL, PROGRAM, PROGRAM),
    ("general: a fence that never closes", Style.GENERAL, f"```python\n{PROGRAM}", PROGRAM),
    ("general: an indented block", Style.GENERAL, "- here:\n  ```python\n  class ModelNew:\n    x = 1\n  ```", None),
    ("general: four backticks around three", Style.GENERAL, f"````python\n{PROGRAM}# ```\n````", f"{PROGRAM}# ```\n"),
    ("general: tildes", Style.GENERAL, f"~~~python\n{PROGRAM}~~~", PROGRAM),
    ("general: Windows line ends", Style.GENERAL, block().replace("\n", "\r\n"), PROGRAM),
    ("general: an alias", Style.GENERAL, block("class A: ...\nModelNew = A\n"), "class A: ...\nModelNew = A\n"),
    ("general: text on the line of the fence", Style.GENERAL, f"Here: {block()}", PROGRAM),
    ("general: the fence closes behind code", Style.GENERAL, "```python\nclass ModelNew: ...```", None),
]


@pytest.mark.parametrize(("style", "text", "expected"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_the_candidate_is_found(style: Style, text: str, expected: str | None) -> None:
    found = extract(samples.said(text), style)
    assert not isinstance(found, NoCode), found
    assert defines_model_new(found.source)
    if expected is not None:
        assert found.source == expected


MISSING = [
    ("an empty answer", Style.GENERAL, samples.said("  \n"), "empty"),
    ("prose", Style.GENERAL, samples.said("I can not do that."), "no fenced code block"),
    ("prose for kevin", Style.KEVIN, samples.said("t</think>I can not do that."), "no fenced code block"),
    ("only a helper", Style.GENERAL, samples.said(block("x = 1\n")), "ModelNew"),
    (
        "kevin: the first block is another",
        Style.KEVIN,
        samples.said(f"t</think>{block('int x;', 'cpp')}\n{block()}"),
        "first",
    ),
    ("kevin: no end of reasoning", Style.KEVIN, samples.said(block()), "</think>"),
    ("kevin: an open fence", Style.KEVIN, samples.said(f"t</think>```python\n{PROGRAM}"), "not closed"),
    ("an open tag", Style.GENERAL, samples.said(f"<think>hm {block()}"), "</think>"),
    ("cut off while reasoning", Style.KEVIN, samples.said("hm", "length"), "still reasoning"),
    ("cut off in the code", Style.GENERAL, samples.said("```python\nclass ModelNew(", "length"), "cut off"),
    ("cut off before any code", Style.GENERAL, samples.said("Let me", "length"), "cut off"),
    ("filtered", Style.GENERAL, samples.said(block(), "filtered"), "filter"),
    ("a failed server", Style.GENERAL, samples.said("", "error", error="connection refused"), "connection refused"),
    ("too long", Style.GENERAL, samples.said(block(PROGRAM + "#" * 1_000_001)), "longer than"),
    ("a zero byte", Style.GENERAL, samples.said("\x00"), "no fenced code block"),
]


@pytest.mark.parametrize(
    ("style", "completion", "reason"), [row[1:] for row in MISSING], ids=[row[0] for row in MISSING]
)
def test_the_reason_is_given_when_there_is_no_candidate(style: Style, completion: Completion, reason: str) -> None:
    found = extract(completion, style)
    assert isinstance(found, NoCode)
    assert reason in found.reason


def test_a_whole_program_that_was_cut_off_behind_its_end_still_counts() -> None:
    found = extract(samples.said(f"{block()}\nI used", "length"), Style.GENERAL)
    assert not isinstance(found, NoCode)


def test_reasoning_returned_apart_leaves_the_text_as_the_answer() -> None:
    found = extract(samples.said(block(), reasoning="hm"), Style.KEVIN)
    assert not isinstance(found, NoCode)


def test_the_digest_is_that_of_the_source() -> None:
    found = extract(samples.said(block()), Style.GENERAL)
    assert not isinstance(found, NoCode)
    assert found.digest == hashlib.sha256(found.source.encode()).hexdigest()


def test_half_a_character_does_not_stop_the_run() -> None:
    found = extract(samples.said(block(f"{PROGRAM}# \ud800\n")), Style.GENERAL)
    assert not isinstance(found, NoCode)
    assert found.source.encode("utf-8")
