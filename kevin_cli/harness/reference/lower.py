"""A loaded module -> the self-contained description that the controller makes a `types.Task` of.

Runs the module: constructs it, draws inputs several times, runs it twice in eval mode without gradients
and traces it. What cannot become a task (tensors as constructor arguments, inputs that change shape, a
forward that writes its inputs or gives random results) ends in a `TaskFault`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from kevin_cli.harness.reference.attributes import plain_attributes
from kevin_cli.harness.reference.calls import invoke
from kevin_cli.harness.reference.faults import TaskFault, describe_call, describe_value, signature_text, user_code
from kevin_cli.harness.reference.graph import trace
from kevin_cli.harness.reference.load import Loaded
from kevin_cli.harness.reference.source import prompt_source
from kevin_cli.harness.reference.specs import Sight, bounds, dtype_name, flatten, join, look, move, spec_of
from kevin_cli.records import to_plain
from kevin_cli.types import Contract, DeviceKind, ParameterSpec, TensorSpec, Tree

SEED = 0
MAX_DRAWS = 4
DRAWS_S = 2.0
"""No further draw of the inputs is begun after this time."""
SAME_RTOL = 1e-2
"""Two runs on the same inputs that differ by more are random, not reordered sums."""


def describe(loaded: Loaded, device: str) -> dict[str, Any]:
    """Everything of a `Task` but name, digest and target, as plain dicts and lists.

    `device` is `cpu` or `cuda`. Raises `TaskFault` when the module cannot be a task.
    """
    init, init_keywords = _init_trees(loaded)
    torch.manual_seed(SEED)
    module = prepared(loaded, device)
    attributes = plain_attributes(module)
    drawn, other = _inputs(loaded, device)
    outputs, output_specs = _outputs(loaded, module, drawn)
    _check_fixed(loaded, module, other, outputs, output_specs)
    torch.manual_seed(SEED)
    graph, note = trace(prepared(loaded, device), drawn.args, drawn.names)
    return {
        "form": loaded.form,
        "shown_class": loaded.class_name,
        "attributes": [list(pair) for pair in attributes],
        "source": prompt_source(loaded),
        "init": to_plain(init),
        "init_keywords": to_plain(init_keywords),
        "inputs": to_plain(drawn.tree),
        "keyword_names": list(drawn.names),
        "outputs": to_plain(outputs),
        "output_specs": [to_plain(spec) for spec in output_specs],
        "parameters": [to_plain(parameter) for parameter in parameter_specs(module)],
        "contract": to_plain(Contract(device=DeviceKind(device), inputs=drawn.specs)),
        "graph": None if graph is None else to_plain(graph),
        "graph_note": note,
        "training": False,
    }


def prepared(loaded: Loaded, device: str) -> nn.Module:
    """A new instance on `device`, in eval mode: the form in which a module is verified and timed."""
    module = loaded.construct()
    with user_code(f"moving the module to {device}", loaded.path):
        return module.to(device).eval()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One set of arguments, taken apart."""

    args: tuple[Any, ...]
    names: tuple[str, ...]
    """Of the last arguments: those that forward takes by keyword only."""
    tree: Tree
    specs: tuple[TensorSpec, ...]
    tensors: tuple[torch.Tensor, ...]


def run_forward(loaded: Loaded, module: nn.Module, drawn: Drawn) -> Any:
    """Call the module without gradients; whatever it raises becomes a `TaskFault`."""
    hint = f"forward takes {signature_text(loaded.forward)}, {loaded.drawn_by} gives {describe_call(drawn.args, {})}"
    with user_code("forward()", loaded.path, hint=hint), torch.no_grad():
        return invoke(module, drawn.args, drawn.names)


def parameter_specs(module: nn.Module) -> tuple[ParameterSpec, ...]:
    """Every tensor of the `state_dict`; a tied one names the entry that it shares its storage with."""
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    first: dict[int, str] = {}
    specs = []
    for name, value in module.state_dict(keep_vars=True).items():
        if isinstance(value, torch.Tensor):
            tied_to = first.setdefault(id(value), name)
            specs.append(
                ParameterSpec(
                    name=name,
                    shape=tuple(value.shape),
                    dtype=dtype_name(value.dtype),
                    kind="parameter" if name in parameters else "buffer",
                    tied_to="" if tied_to == name else tied_to,
                )
            )
    return tuple(specs)


def _init_trees(loaded: Loaded) -> tuple[Tree, Tree]:
    what = f"the constructor of {loaded.class_name}"
    args, tensors = flatten(tuple(loaded.init_args), what)
    keywords, more = flatten(loaded.init_keywords, what)
    if tensors or more:
        raise TaskFault(
            f"{what} is given a tensor ({describe_value((*tensors, *more)[0])})",
            "a kernel is built from plain values: make it a parameter or buffer inside the module, or an input",
        )
    return args, keywords


def _inputs(loaded: Loaded, device: str) -> tuple[Drawn, Drawn | None]:
    """Draw several times: the first draw, its specs with their domains, and the last, if there was another."""
    deadline = time.monotonic() + DRAWS_S
    first, last = _draw(loaded, device, 0), None
    seen: list[list[Sight | None]] = [[look(tensor) for tensor in first.tensors]]
    while len(seen) < MAX_DRAWS and time.monotonic() < deadline:
        last = _draw(loaded, device, len(seen))
        if (last.tree, last.specs, last.names) != (first.tree, first.specs, first.names):
            raise TaskFault(
                "get_inputs() gives other shapes, types or values beside the tensors on each call",
                "a kernel is verified for fixed shapes: let only the contents of the tensors vary",
                "inputs",
            )
        seen.append([look(tensor) for tensor in last.tensors])
    specs = tuple(spec_of(tensor, domain) for tensor, domain in zip(first.tensors, join(seen), strict=True))
    return replace(first, specs=specs), last


def _draw(loaded: Loaded, device: str, seed: int) -> Drawn:
    torch.manual_seed(SEED + seed)
    args, names = loaded.draw_inputs()
    with user_code(f"moving the inputs to {device}", loaded.path, where="inputs"):
        args = move(args, device)
    tree, tensors = flatten(args, "get_inputs()", "inputs")
    return Drawn(args=args, names=names, tree=tree, specs=tuple(map(spec_of, tensors)), tensors=tensors)


def _outputs(loaded: Loaded, module: nn.Module, drawn: Drawn) -> tuple[Tree, tuple[TensorSpec, ...]]:
    versions = [tensor._version for tensor in drawn.tensors]
    torch.manual_seed(SEED)
    tree, results = flatten(run_forward(loaded, module, drawn), "the result of forward")
    if not results:
        raise TaskFault("forward returns no tensor", "return the tensor or tensors that the kernel should compute")
    if versions != [tensor._version for tensor in drawn.tensors]:
        raise TaskFault("forward writes into its inputs", "let it work on a copy: x = x.clone()")
    torch.manual_seed(SEED + 1)
    _, again = flatten(run_forward(loaded, module, drawn), "the result of forward")
    _check_repeatable(results, again)
    return tree, tuple(spec_of(tensor) for tensor in results)


def _check_fixed(
    loaded: Loaded,
    module: nn.Module,
    drawn: Drawn | None,
    outputs: Tree,
    specs: tuple[TensorSpec, ...],
) -> None:
    """Other inputs must give outputs of the same form. `drawn` is `None` when there was no time for a second draw."""
    if drawn is None:
        return
    tree, results = flatten(run_forward(loaded, module, drawn), "the result of forward")
    if tree != outputs or tuple(spec_of(tensor) for tensor in results) != specs:
        raise TaskFault(
            "the shape of forward's result, or a plain value in it, depends on the values of its inputs",
            "a kernel is verified for fixed shapes: return tensors whose shape follows from the input shapes",
        )


def _check_repeatable(first: tuple[torch.Tensor, ...], second: tuple[torch.Tensor, ...]) -> None:
    same = len(first) == len(second) and all(map(_alike, first, second))
    if not same:
        raise TaskFault(
            "forward gives different results for the same inputs",
            "a random result cannot be checked: turn dropout and sampling off in eval mode, keep no state",
        )


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.dtype.is_floating_point or one.numel() == 0:
        return bool(torch.equal(one, other))
    scale = max(map(abs, bounds(one)))
    return bool(torch.allclose(one, other, rtol=SAME_RTOL, atol=SAME_RTOL * scale, equal_nan=True))
