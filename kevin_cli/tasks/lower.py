"""What the reference process describes -> `types.Task`, with its name and digest.

The digest covers everything that defines the work (source, constructor values, specs, outputs, parameters,
graph, device) and nothing that does not (where the file lies, which interpreter runs it), so that equal
tasks share measured baselines. Two files with the same text and different siblings differ by their graphs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kevin_cli.records import from_plain, to_plain
from kevin_cli.tasks.estimate import compulsory_bytes
from kevin_cli.tasks.names import task_name
from kevin_cli.types import Target, Task


def lower(target: Target, description: Mapping[str, Any]) -> Task:
    """Raises `pydantic.ValidationError` when `description` is not what `describe` answers."""
    whole = {
        **description,
        "name": task_name(target),
        "digest": digest(target.class_name, description),
        "target": to_plain(target),
    }
    task = from_plain(Task, whole)
    return replace(task, compulsory_bytes=compulsory_bytes(task))


def digest(class_name: str, description: Mapping[str, Any]) -> str:
    """sha256 in hex of the description in canonical JSON."""
    text = json.dumps([class_name, description], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
