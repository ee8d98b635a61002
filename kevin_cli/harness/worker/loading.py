"""A candidate's file as a module, and an instance of its `ModelNew`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kevin_cli.harness.wire import CONSTRUCTION_SEED
from kevin_cli.harness.worker.call import assemble


def import_file(path: Path) -> ModuleType:
    """Import the candidate under a name of its own; its own name for itself is `candidate`."""
    spec = importlib.util.spec_from_file_location("candidate", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    return module


def construct(module: ModuleType, body: dict[str, Any]) -> torch.nn.Module:
    """`ModelNew(*init, **init_keywords)` under the seed that the reference was constructed under."""
    torch.manual_seed(CONSTRUCTION_SEED)
    model = module.ModelNew(*assemble(body["init"], ()), **assemble(body["init_keywords"], ()))
    if not isinstance(model, torch.nn.Module):
        raise TypeError("ModelNew is not a torch.nn.Module")
    return model
