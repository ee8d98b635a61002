"""A completion that is being written, told to whoever watches: tokens, seconds, whether it still reasons.

A watcher is told a few times a second at most, and never the whole text: a chain of thought has tens of
thousands of words, and nobody reads it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from kevin_cli.types import Hear, Trajectory, Writing

TELL_EVERY_S = 0.25
TAIL_CHARS = 60
_OPENED = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>")
_CLOSED = re.compile(r"</(?:think|thinking|thought|reasoning)>|<\|channel\|>final<\|message\|>")
_LOOK_BACK = 32
"""Characters in which a closing tag may lie across two pieces."""


class Told:
    """Adds up what came of one completion and tells it on."""

    def __init__(
        self,
        trajectory: Trajectory,
        hear: Hear | None,
        decode: Callable[[list[int]], str] | None = None,
        *,
        starts_reasoning: bool = False,
    ) -> None:
        self._trajectory, self._hear, self._decode = trajectory, hear, decode
        self._is_reasoning = starts_reasoning
        self._start_s = self._told_s = time.monotonic()
        self._num_tokens = 0
        self._seen = ""

    def tokens(self, ids: list[int]) -> None:
        """Tokens that came since the last time, from any thread."""
        if self._hear and self._decode:
            self.text(self._decode(ids), len(ids))

    def text(self, piece: str, num_tokens: int = 1, *, is_reasoning: bool | None = None) -> None:
        """A piece of the answer; `is_reasoning` where the server says it."""
        if self._hear is None:
            return
        self._num_tokens += num_tokens
        self._notice(piece, is_reasoning)
        now = time.monotonic()
        if now - self._told_s >= TELL_EVERY_S:
            self._told_s = now
            self._hear(self._writing(now))

    def _notice(self, piece: str, is_reasoning: bool | None) -> None:
        is_first = not self._seen
        self._seen = (self._seen + piece)[-(TAIL_CHARS + _LOOK_BACK + len(piece)) :]
        if is_reasoning is not None:
            self._is_reasoning = is_reasoning
        elif _CLOSED.search(self._seen):
            self._is_reasoning = False
        elif is_first and _OPENED.match(self._seen):
            self._is_reasoning = True

    def _writing(self, now_s: float) -> Writing:
        return Writing(
            trajectory=self._trajectory.index,
            turn=len(self._trajectory.turns),
            num_tokens=self._num_tokens,
            elapsed_s=now_s - self._start_s,
            is_reasoning=self._is_reasoning,
            tail=" ".join(self._seen.split())[-TAIL_CHARS:],
        )
