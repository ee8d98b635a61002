"""Keeps keys and tokens out of what is written down.

A server's error message may quote the key it refused, and such messages are recorded. Every value of an
environment variable that is called a key, a token, a secret or a password is replaced before writing.
Not promised: that a secret which stands nowhere in the environment is recognised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)S?$", re.I)
_IN_URL = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
MIN_CHARS = 8
HIDDEN = "[secret]"


def without_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text without known secrets and without passwords in URLs."""
    for name, value in (os.environ if environment is None else environment).items():
        if len(value) >= MIN_CHARS and _NAME.search(name):
            text = text.replace(value, HIDDEN)
    return _IN_URL.sub(HIDDEN, text)
