"""Import a written extension in a fresh process and use it in place of the module it was made from.

    python kernels_examples/use_extension.py REFERENCE EXTENSION

REFERENCE is the task's file, EXTENSION the `<name>_kevin/` folder that `kevin optimize` wrote. The weights
are changed after construction and handed over with `state_dict`, the inputs are new, and `KEVIN_GUARD=strict`
makes a call fail that would fall back to the original. Nothing is timed here: VERIFICATION.md has the
measured times. Exits 1 when the results differ.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

os.environ["KEVIN_GUARD"] = "strict"

import torch


def import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("task_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def import_extension(folder: Path) -> ModuleType:
    sys.path.insert(0, str(folder.resolve().parent))
    return importlib.import_module(folder.resolve().name)


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    """Weights that no constructor gives, so that a kernel which ignores `state_dict` is found out."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return module.eval()


def main() -> int:
    reference, extension = import_file(Path(sys.argv[1])), import_extension(Path(sys.argv[2]))
    record = json.loads((Path(sys.argv[2]) / "verification.json").read_text())
    device, name = record["contract"]["device"], record["class_name"]
    init = reference.get_init_inputs()
    original = randomised(getattr(reference, name)(*init)).to(device)
    drop_in = getattr(extension, name)(*init).to(device).eval()
    drop_in.load_state_dict(original.state_dict())
    inputs = [value.to(device) for value in reference.get_inputs()]
    package = Path(sys.argv[2]).name
    with torch.no_grad():
        if not torch.allclose(drop_in(*inputs), original(*inputs), rtol=1e-3, atol=1e-4):
            print(f"{package}: the results differ from the original's", file=sys.stderr)
            return 1
    print(f"{package}: used in place of the original in a fresh process, with its weights: same results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
