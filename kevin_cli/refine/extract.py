"""A completion's text -> the candidate in it, or the reason why there is none.

Style `kevin` takes the first fenced block after `</think>`, as the model was trained; the other styles
take the last block that defines `ModelNew`, or the whole text when it is itself such a program. Nothing
is repaired: a block with a syntax error is a candidate, and the judge says so.
"""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
from dataclasses import dataclass

from kevin_cli.types import Candidate, Completion, Style

MAX_SOURCE_CHARS = 1_000_000
_THINK_END = re.compile(r"</(?:think|thinking|thought|reasoning)>|<\|channel\|>final<\|message\|>")
_THINK_START = re.compile(r"\s*(?:<(?:think|thinking|thought|reasoning)>|<\|channel\|>analysis)")
_BLOCK = re.compile(r"(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<body>.*?)(?P<end>(?P=fence)[`~]*[ \t]*$|\Z)", re.M | re.S)
_MODEL_NEW = re.compile(r"^(?:class\s+ModelNew\b|ModelNew\s*=)", re.M)
_TAG_LINE = re.compile(r"\A(?:python|py|cpp|c\+\+|cuda)[ \t]*\n", re.I)


@dataclass(frozen=True, slots=True)
class NoCode:
    """Why a completion holds no candidate, in one sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Block:
    body: str
    closed: bool


def extract(completion: Completion, style: Style) -> Candidate | NoCode:
    """The candidate of one completion."""
    if completion.finish_reason == "error":
        return NoCode(completion.error or "the model gave no answer")
    if completion.finish_reason == "filtered":
        return NoCode("the server's content filter withheld the answer")
    answer = answer_text(completion, style)
    if answer is None:
        return NoCode(_never_answered(completion))
    if not answer.strip():
        return NoCode("the answer is empty")
    blocks = _blocks(answer)
    found = _first(blocks) if style is Style.KEVIN else _last(blocks, answer)
    if isinstance(found, NoCode) and completion.finish_reason == "length":
        return NoCode("the answer was cut off at the token limit before its code was complete")
    return found if isinstance(found, NoCode) else _candidate(found)


def answer_text(completion: Completion, style: Style) -> str | None:
    """The text after the reasoning, or `None` when the reasoning never ended.

    Kevin always reasons, so without `</think>` there is no answer, unless the server returned the
    reasoning apart. Other models may answer at once.
    """
    text = completion.text.replace("\r\n", "\n")
    ends = list(_THINK_END.finditer(text))
    if ends:
        return text[ends[-1].end() :].lstrip("\n")
    if completion.reasoning:
        return text
    if style is Style.KEVIN or _THINK_START.match(text):
        return None
    return text


def defines_model_new(source: str) -> bool:
    """Whether a program defines `ModelNew` at its top level; a broken program is judged by its text."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _MODEL_NEW.search(source) is not None
    return any(_binds_model_new(node) for node in tree.body)


def _binds_model_new(node: ast.stmt) -> bool:
    if isinstance(node, ast.ClassDef):
        return node.name == "ModelNew"
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == "ModelNew" for target in targets)


def _never_answered(completion: Completion) -> str:
    if completion.finish_reason == "length":
        return "the token limit was reached while the model was still reasoning"
    return "the reasoning did not end with </think>, so there is no answer"


def _blocks(answer: str) -> list[_Block]:
    found = []
    for match in _BLOCK.finditer(answer):
        body = _TAG_LINE.sub("", match["body"])
        found.append(_Block(textwrap.dedent(body), closed=match["end"] != ""))
    return found


def _first(blocks: list[_Block]) -> str | NoCode:
    if not blocks:
        return NoCode("the answer has no fenced code block")
    if not blocks[0].closed:
        return NoCode("the code block is not closed")
    if not defines_model_new(blocks[0].body):
        return NoCode("the first code block does not define ModelNew")
    return blocks[0].body


def _last(blocks: list[_Block], answer: str) -> str | NoCode:
    """The last block with `ModelNew`; an unclosed one only when it is a whole program."""
    for block in reversed(blocks):
        if defines_model_new(block.body) and (block.closed or _parses(block.body)):
            return block.body
    if _parses(answer) and defines_model_new(answer):
        return answer
    if any(not block.closed for block in blocks):
        return NoCode("the code block is not closed")
    return NoCode("no code block defines ModelNew" if blocks else "the answer has no fenced code block")


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _candidate(source: str) -> Candidate | NoCode:
    if len(source) > MAX_SOURCE_CHARS:
        return NoCode(f"the code is longer than {MAX_SOURCE_CHARS} characters")
    data = (source.strip("\n") + "\n").encode("utf-8", "replace")
    return Candidate(source=data.decode("utf-8"), digest=hashlib.sha256(data).hexdigest())
