"""The command as users start it, and an environment without what the caller happens to have set."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

KEVIN = Path(sys.executable).with_name("kevin")

Kevin = Callable[..., subprocess.CompletedProcess[str]]


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEVIN_", "OPENAI_"))}
    return {**kept, "HOME": str(home), "COLUMNS": "80", "NO_COLOR": "1", **(extra or {})}
