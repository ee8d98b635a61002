"""The command as users start it, in a folder of theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PATIENCE = float(os.environ.get("TEST_PATIENCE", "1"))
"""By how much the limits of slow tests are stretched, on a machine that others use."""
KEVIN = Path(sys.executable).with_name("kevin")


def kevin(folder: Path, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KEVIN_")}
    env = {**kept, "KEVIN_CACHE": str(folder / "cache"), "NO_COLOR": "1"}
    return subprocess.run(
        [str(KEVIN), *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
