"""The arenas as the worker sees them: forward's arguments, the places of its results, the weights.

The inputs are mapped shared and writable on purpose: a candidate that changes its inputs does so where
the reference, which holds a private master of them, can see it. The weights are mapped read-only.
"""

from __future__ import annotations

from typing import Any

import torch

from kevin_cli.harness.arena import Arena, open_arena, view
from kevin_cli.harness.worker.call import assemble


class Opened:
    """Everything that is laid out before the candidate arrives."""

    def __init__(self, body: dict[str, Any], fds: tuple[int, ...]) -> None:
        """`body` holds the layout and the specs of inputs, outputs and parameters; three fds in this order."""
        layout, device = body["layout"], body["device"]
        inputs = open_arena(fds[0], layout["inputs"]["num_bytes"], device, writable=True)
        outputs = open_arena(fds[1], layout["outputs"]["num_bytes"], device, writable=True)
        weights = open_arena(fds[2], layout["weights"]["num_bytes"], device, writable=False)
        self.arenas = (inputs, outputs)
        num_slots = layout["num_slots"]
        leaves = _by_slot(inputs, layout["inputs"]["tensors"], body["input_specs"], num_slots)
        self.arguments = [assemble(body["inputs"], slot) for slot in leaves]
        self.outputs: dict[str, Any] = body["outputs"]
        self.places = _by_slot(outputs, layout["outputs"]["tensors"], body["output_specs"], num_slots)
        self.weights = {
            name: view(weights, layout["weights"]["tensors"][name], spec) for name, spec in body["weight_specs"].items()
        }


def _by_slot(
    arena: Arena, offsets: list[list[int]], specs: list[dict[str, Any]], num_slots: int
) -> list[list[torch.Tensor]]:
    """`[slot][tensor]`; the layout lists the slots of each tensor."""
    return [
        [view(arena, places[slot], spec) for places, spec in zip(offsets, specs, strict=True)]
        for slot in range(num_slots)
    ]
