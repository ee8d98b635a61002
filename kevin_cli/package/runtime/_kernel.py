"""The part of a package that makes the kernel's own module, with the weights of the user's.

Copied into every package; torch and the standard library only.
"""

from __future__ import annotations

import hashlib
import importlib
import threading
import types
from pathlib import Path
from typing import Any

import torch

from . import _contract, _libraries

CONSTRUCTION_SEED = 20261130
"""The judge constructs candidates under this seed."""

_programs: dict[Path, types.ModuleType] = {}
_lock = threading.RLock()


def new_kernel(folder: Path, record: dict[str, Any], held: list[Any]) -> torch.nn.Module:
    """A new `ModelNew` with these weights, made under the judge's seed and without touching the caller's
    random state. Raises `ImportError`, `OSError` or `RuntimeError` when it can't be loaded here."""
    device = record["contract"]["device"]
    index = next((tensor.get_device() for tensor in held), -1) if device == "cuda" else -1
    gpus = [torch.cuda.current_device() if index < 0 else index] if device == "cuda" else []
    with _lock, _libraries.resolved(folder, record), torch.random.fork_rng(devices=gpus):
        program = _program(folder, record)
        torch.default_generator.manual_seed(CONSTRUCTION_SEED)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(CONSTRUCTION_SEED)
        init, keywords = _contract.assemble(record["init"], ()), _contract.assemble(record["init_keywords"], ())
        kernel: torch.nn.Module = program.ModelNew(*init, **keywords)
    kernel = kernel.to(torch.device(device, gpus[0]) if gpus else device).train(record["training"])
    by_name = dict(zip((spec["name"] for spec in record["parameters"]), held, strict=True))
    for theirs, ours in record["weights"]:
        _give(kernel, theirs, by_name[ours])
    _resolve_in_first_call(kernel, folder, record)
    return kernel


def _resolve_in_first_call(kernel: torch.nn.Module, folder: Path, record: dict[str, Any]) -> None:
    """A program may ask for its extension when it is first called: there it finds the finished one as well."""
    forward = kernel.forward

    def first(*args: Any) -> Any:
        with _lock, _libraries.resolved(folder, record):
            result = forward(*args)
        kernel.__dict__.pop("forward", None)
        return result

    kernel.__dict__["forward"] = first


def place(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """The table that holds a parameter or buffer, and its key there."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    return (owner._parameters if leaf in owner._parameters else owner._buffers), leaf


def _program(folder: Path, record: dict[str, Any]) -> types.ModuleType:
    """`kernel.py`, imported once, and only when it is what was verified."""
    if folder not in _programs:
        if hashlib.sha256((folder / "kernel.py").read_bytes()).hexdigest() != record["candidate"]:
            raise ImportError("kernel.py is not the program that was verified")
        _programs[folder] = importlib.import_module(f"{__package__}.kernel")
    return _programs[folder]


def _give(kernel: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Let the kernel use the module's own tensor; a copy only where types differ."""
    table, leaf = place(kernel, name)
    mine = table[leaf]
    if mine is not None and mine.dtype == tensor.dtype and mine.shape == tensor.shape:
        table[leaf] = tensor
        return
    with torch.no_grad():
        mine.copy_(tensor)
