"""The part of a package that decides, call by call, whether the kernel runs, and keeps it ready.

Copied into every package; torch and the standard library only. An answer of yes reads attributes and nothing else:
what it costs a call is measured by kevin's `tests/benchmarks/guard.py`. The words are made only for a no.

Not guarded: plain attributes of submodules that are changed after construction.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.autograd import forward_ad

from . import _contract
from ._kernel import new_kernel, place

MODES = ("", "log", "strict", "off")
"""What `KEVIN_GUARD` may be."""
OTHER_ARGUMENTS = "the arguments differ from the verified ones in number or structure"
_num_watching = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
"""How many dispatch modes see every operator (`make_fx`, FLOP counters): they have to see the kernel as one."""


Seen: TypeAlias = tuple[dict[str, Any], str, torch.Tensor, Callable[[torch.Tensor], tuple[Any, ...]], tuple[Any, ...]]
"""A weight: its table and key there, the tensor, how to look at it, and what was seen."""


class OutsideContract(RuntimeError):  # noqa: N818 - a condition, not a mistake
    """Raised under `KEVIN_GUARD=strict` when a call is outside what was verified."""


@functools.cache
def guard_mode(asked: str, package: str) -> str:
    """`asked`; the guard of every day, said once, when there is no such mode."""
    if asked in MODES:
        return asked
    text = "KEVIN_GUARD is %r, which is none of log, strict and off: the guard is on, each reason is said once"
    logging.getLogger(package).warning(text, asked)
    return ""


class Bridge:
    """What one instance knows about its kernel. Copies and pickles of a module start with a fresh one."""

    def __init__(self, package: Any) -> None:
        record = package.record
        self.package, self.record = package, record
        self.names = tuple(record["keyword_names"])
        self.guard = guard_mode(os.environ.get("KEVIN_GUARD", ""), package.name)
        self.construction = ""
        self.broken = ""
        self.tables: Any = None
        """The `_parameters` of the module that this one belongs to."""
        self._places: list[tuple[dict[str, Any], str]] = []
        self._inside: list[tuple[Any, str, Any, int]] = []
        self._positions: _contract.Positions | None = None
        self._made: tuple[tuple[Seen, ...], torch.nn.Module] | None = None
        """The kernel, and the weights that it was made with."""
        self._said: set[str] = set()
        self._device = record["contract"]["device"]
        self._is_cuda = self._device == "cuda"
        self._training = record["training"]
        self._is_default_only = bool(record["default_stream_only"])
        self._inputs = [_contract.Spec(spec, self._device) for spec in record["contract"]["inputs"]]
        self._parameters = [_contract.Spec(spec, self._device) for spec in record["parameters"]]
        self._is_flat = all(item["kind"] == "tensor" for item in record["inputs"]["items"])

    def __reduce__(self) -> tuple[Any, ...]:
        return fresh_bridge, (self.package, self.construction)

    def adopted_by(self, module: Any) -> Bridge:
        """This one, for the module that it is made for; a fresh one for a replica, which came with the first's."""
        if self.tables is not None:
            module.__dict__["_kevin"] = mine = fresh_bridge(self.package, self.construction)
            return mine.adopted_by(module)
        self.tables = module._parameters
        try:
            self._places = [place(module, spec["name"]) for spec in self.record["parameters"]]
        except AttributeError:
            self.broken = "the module has other parts than the verified one"
        owners = [part._modules for part in module.modules()]
        parts: list[tuple[Any, str, Any]] = [(table, key, part) for table in owners for key, part in table.items()]
        self._inside = [(*found, _num_hooks(found[2])) for found in parts if found[2] is not None]
        return self

    # --- a call ---------------------------------------------------------------------------------------

    def placed(self, original: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...] | None:
        """The arguments by position; `None` when they can't be put so."""
        if self._positions is None:
            self._positions = _contract.Positions(original, self.names)
        return self._positions.place(args, keywords)

    def admitted(self, module: Any, given: tuple[Any, ...] | None) -> tuple[torch.nn.Module | None, str]:
        """The kernel with this module's weights, or why it does not run."""
        if given is None or self.broken:
            return None, self.construction or self.broken or OTHER_ARGUMENTS
        known = self._known()
        if self.guard != "off":
            why = self._reason(module, given, known is not None)
            if why:
                return None, why
        return known or self._new(self.held()), self.broken

    def _known(self) -> torch.nn.Module | None:
        """The kernel that was made before, unless a weight was changed in any way since then."""
        if self._made is None:
            return None
        seen, kernel = self._made
        for table, leaf, tensor, look, facts in seen:
            if table.get(leaf) is not tensor or look(tensor) != facts:
                return None
        return kernel

    def held(self) -> list[Any]:
        """The module's parameters and buffers as they are now, in the order of the record."""
        return [table.get(leaf) for table, leaf in self._places]

    def _reason(self, module: Any, given: tuple[Any, ...], is_known: bool) -> str:
        """Why a call is outside the contract; empty when it is inside. `is_known`: the weights were here before."""
        if self.construction:
            return self.construction
        if module.training is not self._training:
            return f"the module is in {'training' if module.training else 'evaluation'} mode"
        if torch.is_autocast_enabled(self._device):
            return "autocast is on"
        if self._is_default_only and torch.cuda.current_stream() != torch.cuda.default_stream():
            return "another stream than torch's default one is current"
        if torch.jit.is_tracing():
            return "torch.jit traces the call, and would not see the kernel"
        if self._inside and (why := self._inner_reason()):
            return why
        tensors = self._tensors(given)
        if tensors is None:
            return OTHER_ARGUMENTS
        return self._tensor_reason(tensors, () if is_known else self.held()) or self._place_reason(tensors)

    def _new(self, held: list[Any]) -> torch.nn.Module | None:
        """The kernel with these weights; `None`, and `broken` says why, when it can't be made here."""
        try:
            kernel = new_kernel(self.package.folder, self.record, held)
        except (ImportError, OSError, RuntimeError) as error:
            self.broken = f"the kernel can't be loaded here: {error}".splitlines()[0]
            return None
        looks = [_facts_of_inference if tensor.is_inference() else _facts for tensor in held]
        pairs = zip(self._places, held, looks, strict=True)
        self._made = tuple((*where, tensor, look, look(tensor)) for where, tensor, look in pairs), kernel
        return kernel

    def run(self, kernel: torch.nn.Module, given: tuple[Any, ...]) -> Any:
        """Call the kernel on the device that its arguments are on; as an operator where something watches those."""
        if _num_watching():
            return self.operator(self._tensors(given), self.held())
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self._run(kernel, given)
        return self._run(kernel, given)

    def _run(self, kernel: torch.nn.Module, given: tuple[Any, ...]) -> Any:
        if self._is_cuda:
            index = next((a.get_device() for a in given if isinstance(a, torch.Tensor)), -1)
            if index not in (-1, torch.cuda.current_device()):
                with torch.cuda.device(index):
                    return kernel.forward(*given)
        return kernel.forward(*given)

    def refuse(self, reason: str) -> None:
        """Say that the original runs, as loudly as the guard asks."""
        if self.guard == "strict":
            raise OutsideContract(reason)
        if self.guard == "log" or reason not in self._said:
            self._said.add(reason)
            name = self.record["name"]
            logging.getLogger(self.package.name).warning("%s: running the original module: %s", name, reason)

    def _tensors(self, given: tuple[Any, ...]) -> tuple[Any, ...] | list[Any] | None:
        if self._is_flat:
            return given if len(given) == len(self._inputs) else None
        found: list[Any] = []
        return found if _contract.matches(self.record["inputs"], given, found) else None

    def _inner_reason(self) -> str:
        """The modules inside never run, so what was done to them is lost: another one, its mode, its hooks."""
        for table, key, part, num_hooks in self._inside:
            if table.get(key) is not part:
                return f"submodule {key} was replaced"
            if part.training is not self._training:
                return f"submodule {key} is in {'training' if part.training else 'evaluation'} mode"
            if len(part._forward_hooks) + len(part._forward_pre_hooks) != num_hooks:
                return f"the hooks of submodule {key} were changed"
        return ""

    def _tensor_reason(self, tensors: Any, weights: Any) -> str:
        try:
            for index, (tensor, spec) in enumerate(zip(tensors, self._inputs, strict=True)):
                if not spec.fits(tensor):
                    return f"input {index} {spec.reason(tensor)}"
            for index, (tensor, spec) in enumerate(zip(weights, self._parameters, strict=False)):
                if not spec.fits(tensor):
                    return f"parameter {self.record['parameters'][index]['name']!r} {spec.reason(tensor)}"
        except RuntimeError:
            return "a tensor has no memory of its own"
        return ""

    def _place_reason(self, tensors: Any) -> str:
        """What is about all tensors together: gradients, and one GPU."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*tensors, *self.held())):
            return "gradients are enabled; use torch.no_grad()"
        if forward_ad._current_level >= 0:
            return "forward-mode gradients are on"
        if self._is_cuda and len({tensor.get_device() for tensor in (*tensors, *self.held())}) > 1:
            return "inputs and weights are on several GPUs"
        return ""

    # --- calls that are traced --------------------------------------------------------------------------

    def traced(self, module: Any, original: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any] | None:
        """The flat inputs of a call that is inside the contract as far as shapes can tell, or `None`."""
        if self._is_default_only:  # nobody knows on which stream a traced program will run
            return None
        if self.construction or module.training is not self._training or torch.is_autocast_enabled(self._device):
            return None
        if keywords or self.names:
            placed = self.placed(original, args, keywords)
            if placed is None:
                return None
            args = placed
        found: list[Any] = []
        if not _contract.matches(self.record["inputs"], args, found) or len(found) != len(self._inputs):
            return None
        held = self.weights(module)
        for tensor, spec in zip([*found, *held], [*self._inputs, *self._parameters], strict=True):
            if not spec.fits_traced(tensor) or (torch.is_grad_enabled() and tensor.requires_grad):
                return None
        return found

    def operator(self, leaves: Any, held: list[Any]) -> Any:
        """The kernel as one operator of torch."""
        return _contract.assemble(self.record["outputs"], self.package.operator.call(list(leaves), held))

    def weights(self, module: Any) -> list[Any]:
        """Like `held`, in a form that a compiler can follow."""
        return [functools.reduce(getattr, spec["name"].split("."), module) for spec in self.record["parameters"]]


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What changes with a tensor's values, place or layout."""
    return tensor.data_ptr(), tensor._version, tensor.dtype, tensor.shape, tensor.stride()


def _facts_of_inference(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The same for a tensor whose values change unseen."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _num_hooks(part: Any) -> int:
    return len(part._forward_hooks) + len(part._forward_pre_hooks)


def fresh_bridge(package: Any, construction: str) -> Bridge:
    """What a copy of a module starts with."""
    bridge = Bridge(package)
    bridge.construction = construction
    return bridge
