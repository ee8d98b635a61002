"""A policy that says what it was told to say: for tests and `--model scripted:FILE`.

FILE is JSON: a list with one entry for each trajectory, each a list with one entry for each turn. A turn
is the text itself or an object with `text` and optionally `finish_reason`, `reasoning` and `error`. A
flat list of turns serves every trajectory. When the script is at its end, the completion is an error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.types import Completion, Limits, Trajectory

_FIELDS = {"text", "finish_reason", "reasoning", "error"}
_REASONS = {"stop", "length", "filtered", "error"}


class ScriptedPolicy:
    """Answers turn n of trajectory i with `completions[i][n]`; more trajectories start over at the first."""

    def __init__(self, completions: Sequence[Sequence[Completion | str]], name: str = "scripted") -> None:
        if not completions:
            raise ValueError("a script has at least one trajectory")
        self.name = name
        self._completions = [[_completion(entry, name) for entry in turns] for turns in completions]

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        turns = self._completions[trajectory.index % len(self._completions)]
        number = len(trajectory.turns)
        if number < len(turns):
            return turns[number]
        return Completion(text="", finish_reason="error", model=self.name, error="the script has no more completions")

    async def close(self) -> None:
        """Nothing to let go of."""


def load_script(path: Path) -> ScriptedPolicy:
    """Read a script. Raises `UsageError` when the file is missing or is not a script."""
    hint = "a script is a JSON list of completions, or a list of such lists, one for each trajectory"
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}", hint) from error
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", hint) from error
    if not isinstance(plain, list) or not plain:
        raise UsageError(f"{path} is not a script", hint)
    nested = plain if all(isinstance(entry, list) for entry in plain) else [plain]
    return ScriptedPolicy([[_read(entry, path, hint) for entry in turns] for turns in nested], f"scripted {path.name}")


def _read(entry: Any, path: Path, hint: str) -> Completion | str:
    if isinstance(entry, str):
        return entry
    if not isinstance(entry, dict) or not entry.keys() <= _FIELDS or entry.get("finish_reason", "stop") not in _REASONS:
        raise UsageError(f"{path}: {str(entry)[:60]!r} is not a completion", hint)
    fields = {"text": "", "finish_reason": "stop", **entry}
    return Completion(model="scripted", **fields)


def _completion(entry: Completion | str, name: str) -> Completion:
    return entry if isinstance(entry, Completion) else Completion(text=entry, finish_reason="stop", model=name)
