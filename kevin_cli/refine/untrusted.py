"""Text that a candidate could have written: made harmless before a model or a person reads it.

A compiler's log and a traceback quote the candidate, so they may hold anything: terminal escapes, chat
control tokens, a closing fence, an order to the reader. This file removes the first two, picks a fence
the text can not close, and caps the length. It does not make the text true; nothing is ever decided on it.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff]")
_CHAT_TOKEN = re.compile(r"<(?=[|｜]|/?think(?:ing)?>)")
_TICKS = re.compile(r"`+")


def clean(text: str, *, cap_chars: int) -> str:
    """Without control characters and chat control tokens, at most about `cap_chars` long (head and tail)."""
    text = text.replace("\r\n", "\n").encode("utf-8", "replace").decode("utf-8")
    text = printable(text)
    text = _CHAT_TOKEN.sub(lambda found: found.group() + " ", text)
    return cut(text.strip("\n"), cap_chars)


def printable(text: str) -> str:
    """Without terminal escapes and control characters, otherwise as it is: for a person to read."""
    return _CONTROL.sub("", _ESCAPE.sub("", text))


def cut(text: str, cap_chars: int) -> str:
    """The first two thirds and the last third of a text that is too long, at line ends where possible."""
    if len(text) <= cap_chars:
        return text
    head, tail = text[: cap_chars * 2 // 3], text[len(text) - cap_chars // 3 :]
    head = head[: head.rfind("\n")] if "\n" in head else head
    tail = tail[tail.find("\n") + 1 :] if "\n" in tail else tail
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[... {left_out} characters left out ...]\n{tail}"


def fenced(text: str) -> str:
    """The text in a fence that is longer than any run of backticks inside it."""
    fence = fence_for(text)
    return f"{fence}text\n{text}\n{fence}"


def fence_for(text: str) -> str:
    """Backticks enough for a fence around this text."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)
