"""How long a text is in the tokens of a server's own model, where the server tells: vLLM and SGLang do.

Prompts are rendered in a thread, so counting may wait for the server. Where it does not tell, four characters are
taken for a token. Equal texts are counted once.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

from kevin_cli.policies.calls import call
from kevin_cli.policies.endpoint import Server

COUNTING_SERVERS = {"vllm", "sglang"}
TIMEOUT_S = 10.0
CACHED = 4096


class ServerCount:
    """`counter` is the function to count with, or `None` when this server does not tell."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cached = functools.lru_cache(CACHED)(self._ask)
        self._is_deaf = server.model.owner not in COUNTING_SERVERS

    @property
    def counter(self) -> Callable[[str], int] | None:
        return None if self._is_deaf else self._count

    def _count(self, text: str) -> int:
        if self._is_deaf:
            return _guess(text)
        try:
            return self._cached(text)
        except (OSError, ValueError, KeyError, TypeError):
            return _guess(text)

    def _ask(self, text: str) -> int:
        plain = {"model": self._server.model.name, "prompt": text, "add_special_tokens": False}
        url = f"{self._server.root}/tokenize"
        status, body = call(url, headers=self._server.headers, timeout_s=TIMEOUT_S, plain=plain)
        if status in (404, 405):
            self._is_deaf = True
        return int(json.loads(body)["count"])


def _guess(text: str) -> int:
    return -(-len(text) // 4)
