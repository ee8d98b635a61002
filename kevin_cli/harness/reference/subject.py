"""The user's module, alive: constructed once, run on copies of its inputs, always from the same state.

Every run gets clones (a module may write into its inputs), the same random state (two runs of a module
with dropout agree unless asked to differ) and the same buffers (batch norm in training mode changes its
own). TF32 is left as the user's file set it: the module's own error is the error its author accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kevin_cli.harness.arena import extent
from kevin_cli.harness.reference.calls import invoke
from kevin_cli.harness.reference.faults import user_code
from kevin_cli.harness.reference.load import Loaded
from kevin_cli.harness.reference.trees import Plain, assemble, flatten
from kevin_cli.harness.wire import CONSTRUCTION_SEED

RUN_SEED = 7


class Subject:
    """One task's module on its device, in the mode in which it is verified."""

    def __init__(self, loaded: Loaded, description: dict[str, Any], device: str) -> None:
        self.loaded = loaded
        self.device = torch.device(device)
        self.training = bool(description["training"])
        self.input_tree: Plain = description["inputs"]
        self.keyword_names = tuple(description.get("keyword_names", ()))
        self.output_tree: Plain = description["outputs"]
        self.input_specs: list[dict[str, Any]] = list(description["contract"]["inputs"])
        self.output_specs: list[dict[str, Any]] = list(description["output_specs"])
        nodes = (description.get("graph") or {}).get("nodes", ())
        self.operations = frozenset(str(node["op"]) for node in nodes)
        """Of the graph: `aten.mul.Tensor`; empty where the module has none."""
        self.module = construct(loaded).to(self.device).train(self.training)
        self.weights_version = 0
        self._buffers: dict[str, torch.Tensor] = {}
        self.keep_state()

    @property
    def path(self) -> Path:
        return Path(self.loaded.path)

    def keep_state(self) -> None:
        """What the buffers hold now is what every later run starts from."""
        self._buffers = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        self.weights_version += 1

    def run(self, inputs: Sequence[torch.Tensor], *, seed: int = RUN_SEED) -> list[torch.Tensor]:
        """The module's outputs, flat, in its own precision. Raises `TaskFault` with where="reference"."""
        self.restore_state(self.module)
        return self.call(self.module, [clone(tensor) for tensor in inputs], seed=seed)

    def call(
        self,
        module: nn.Module,
        inputs: Sequence[torch.Tensor],
        *,
        seed: int = RUN_SEED,
        mode: AbstractContextManager[Any] | None = None,
    ) -> list[torch.Tensor]:
        """The same with a copy of the module, as it is; `inputs` may be written to. `mode` is on in forward only."""
        torch.manual_seed(seed)
        with user_code("forward", self.path, where="reference"), torch.no_grad(), mode or nullcontext():
            result = invoke(module, assemble(self.input_tree, inputs), self.keyword_names)
            synchronize(self.device)
        return flatten(self.output_tree, result)

    def by_position(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call` (the module, or a compiled one) as something that takes every input by position."""
        if not self.keyword_names:
            return call
        return lambda *args: invoke(call, args, self.keyword_names)

    def restore_state(self, module: nn.Module) -> None:
        """Buffers as `keep_state` found them, in a module or in a copy of another precision."""
        with torch.no_grad():
            for name, buffer in module.named_buffers():
                buffer.copy_(self._buffers[name])


def construct(loaded: Loaded) -> nn.Module:
    """A new instance under the seed that the worker uses too, so that equal initialisers agree."""
    seed_everything(CONSTRUCTION_SEED)
    return loaded.construct()


def seed_everything(seed: int) -> None:
    """torch on every device, `random`, and numpy when the user's code has imported it."""
    import random
    import sys

    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The storage that a tensor spans, gaps included, one-dimensional and without a copy."""
    size = extent(tensor.shape, tensor.stride())
    return tensor.detach().as_strided((size,), (1,), tensor.storage_offset())


def clone(tensor: torch.Tensor, device: torch.device | None = None) -> torch.Tensor:
    """A private copy with the same strides, overlaps and gaps included."""
    copied = flat(tensor).to(device or tensor.device, copy=True)
    return copied.as_strided(tensor.shape, tensor.stride())


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality of two one-dimensional tensors (NaN equals NaN)."""
    return equal_bytes(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def equal_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equality of two flat uint8 tensors, eight bytes at a time where they lie so."""
    if len(a) != len(b):
        return False
    whole = len(a) // 8 * 8 if a.storage_offset() % 8 == b.storage_offset() % 8 == 0 else 0
    if whole and not torch.equal(a[:whole].view(torch.int64), b[:whole].view(torch.int64)):
        return False
    return bool(torch.equal(a[whole:], b[whole:]))


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
