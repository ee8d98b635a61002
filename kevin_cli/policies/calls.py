"""The few calls of a server that are not OpenAI's: pause, wake, count. One request, status and body; no retries."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any


def call(
    url: str, *, headers: Mapping[str, str], timeout_s: float, plain: Any = None, get: bool = False
) -> tuple[int, str]:
    """POST (or GET) and wait (blocking). Raises `OSError` when nobody answers."""
    data = None if get else json.dumps(plain or {}).encode()
    asked = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(asked, timeout=timeout_s) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")
    except ValueError as error:
        raise OSError(str(error)) from error
