"""A few calls of a candidate without anybody at the other end: what compute-sanitizer is run over.

`launch.py alone FOLDER`. The folder holds `request.json` and the inputs and weights as raw bytes.
Every tensor is copied to the device by this process itself, so that a tool that follows what was written knows it.
Nothing is compared here; the last line says that all calls were made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from kevin_cli.harness.arena import dtype_of, extent
from kevin_cli.harness.worker import extensions
from kevin_cli.harness.worker.call import assemble
from kevin_cli.harness.worker.loading import construct, import_file
from kevin_cli.harness.worker.parameters import copy_weights


def read_tensor(path: Path, spec: dict[str, Any], device: str) -> torch.Tensor:
    """The tensor of a spec, gaps between its elements included, from the bytes of its storage."""
    shape, strides, dtype = tuple(spec["shape"]), tuple(spec["strides"]), dtype_of(spec["dtype"])
    size = extent(shape, strides)
    if size == 0:
        return torch.empty(shape, dtype=dtype, device=device)
    flat = torch.frombuffer(bytearray(path.read_bytes()), dtype=dtype)[:size]
    return flat.to(device).as_strided(shape, strides)


def main(folder: Path) -> None:
    """Load, construct, fill the weights, call. Raises what the candidate raises."""
    body = json.loads((folder / "request.json").read_text())
    device = body["device"]
    leaves = [read_tensor(folder / f"input-{i}", spec, device) for i, spec in enumerate(body["input_specs"])]
    weights = {
        spec["name"]: read_tensor(folder / f"weight-{i}", spec, device) for i, spec in enumerate(body["weights"])
    }
    extensions.install(Path(body["build"]))
    model = construct(import_file(Path(body["build"]) / "candidate.py"), body).to(device).train(body["training"])
    copy_weights(model, body["map"], weights)
    with torch.no_grad():
        for _ in range(body["num_calls"]):
            model(*assemble(body["inputs"], leaves))
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    print(body["last_words"], flush=True)
