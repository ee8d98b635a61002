"""A checkpoint -> the weights of a module. Only tensors are read: nothing in the file is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from kevin_cli.harness.reference.faults import TaskFault, short_error

PREFIXES = ("", "module.", "model.")
"""What wrappers put before the names: DataParallel, Lightning and the like."""
NESTED = ("state_dict", "model_state_dict", "model")
"""Where training scripts keep the weights among other things."""


def load_checkpoint(module: nn.Module, file: Path) -> None:
    """Raises `TaskFault` when it can't be read, or when names or shapes differ."""
    state = _read(file)
    for prefix in PREFIXES:
        stripped = {name.removeprefix(prefix): value for name, value in state.items()}
        if set(stripped) >= set(module.state_dict()):
            break
    try:
        module.load_state_dict(stripped)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines()[1:2]]
        raise TaskFault(
            f"{file.name} does not fit {type(module).__name__}: {' '.join(lines) or short_error(error)}",
            "give the checkpoint of exactly this module",
        ) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        found = _safetensors(file) if file.suffix == ".safetensors" else torch.load(file, "cpu", weights_only=True)
    except ImportError as error:
        raise TaskFault(f"reading {file.name} needs the package safetensors", "pip install safetensors") from error
    except Exception as error:
        raise TaskFault(
            f"can't read {file}: {short_error(error)}", "give a .safetensors or a torch checkpoint"
        ) from error
    for key in NESTED:
        if isinstance(found, dict) and isinstance(found.get(key), dict):
            found = found[key]
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise TaskFault(f"{file.name} holds no state_dict", "save it with torch.save(module.state_dict(), path)")
    return found


def _safetensors(file: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    state: dict[str, torch.Tensor] = load_file(file)
    return state
