"""A tensor on the second GPU in a written package: right device, right stream, guards that hold.

    python tests/gpu/two_gpus_package.py

Optimises an example on the first GPU, then uses the package in a fresh process with module and inputs on the second:
on its default stream and on another, with the first GPU as the current one throughout, and with inputs on the wrong
GPU. What comes back has to equal the original module's answer, on the device of the inputs. Exits 1 otherwise.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels_examples")]
KEVIN = [sys.executable, "-c", "from kevin_cli.app import main; main()"]
EXAMPLE = ROOT / "kernels_examples" / "rms_norm" / "reference.py"
SEARCH = ["--device", "cuda", "--baseline", "eager", "--turns", "1", "--trajectories", "1", "--no-git"]


def optimise(out: Path) -> Path:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [*KEVIN, "optimize", str(EXAMPLE), *SEARCH, "--out", str(out)]
    subprocess.run(command, cwd=out, env=env, check=True)
    return out / "rms_norm_kevin"


def use(package: Path) -> int:
    """In a process of its own: what is imported here must not have been imported by kevin."""
    import torch
    from use_extension import import_file, randomised

    reference = import_file(EXAMPLE)
    sys.path.insert(0, str(package.parent))
    name = json.loads((package / "verification.json").read_text())["class_name"]
    offered = getattr(importlib.import_module(package.name), name)
    init = reference.get_init_inputs()
    original = randomised(getattr(reference, name)(*init)).to("cuda:1")
    drop_in = offered(*init).to("cuda:1").eval()
    drop_in.load_state_dict(original.state_dict())
    inputs = [value.to("cuda:1") for value in reference.get_inputs()]
    failed = 0
    with torch.no_grad():
        expected = original(*inputs)
        for title, stream in (("default stream", None), ("a stream of its own", torch.cuda.Stream("cuda:1"))):
            failed |= _tell(title, _called(drop_in, inputs, stream), expected)
        failed |= _tell_mixed(drop_in, [value.to("cuda:0") for value in inputs])
    print(f"the current device is still cuda:{torch.cuda.current_device()}")
    return failed | int(torch.cuda.current_device() != 0)


def _called(module, inputs, stream):  # type: ignore[no-untyped-def]
    import torch

    if stream is None:
        return module(*inputs)
    stream.wait_stream(torch.cuda.current_stream("cuda:1"))
    with torch.cuda.stream(stream):
        found = module(*inputs)
    stream.synchronize()
    return found


def _tell(title, found, expected) -> int:  # type: ignore[no-untyped-def]
    import torch

    good = found.device == expected.device and torch.allclose(found, expected, rtol=1e-3, atol=1e-4)
    worst = (found.to(expected.device) - expected).abs().max().item()
    print(f"{title}: {'equal' if good else 'NOT EQUAL'} on {found.device}, largest difference {worst:.2e}")
    return int(not good)


def _tell_mixed(module, inputs) -> int:  # type: ignore[no-untyped-def]
    """Weights on the second GPU, inputs on the first: torch refuses that, and so has the package to."""
    try:
        found = module(*inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        print(f"inputs on another GPU than the weights: refused ({str(error).splitlines()[0][:100]})")
        return 0
    print(f"inputs on another GPU than the weights: ANSWERED on {found.device}")
    return 1


def main() -> None:
    if sys.argv[1:2] == ["use"]:
        raise SystemExit(use(Path(sys.argv[2])))
    with tempfile.TemporaryDirectory() as folder:
        package = optimise(Path(folder))
        env = {**os.environ, "KEVIN_GUARD": "strict"}
        raise SystemExit(subprocess.run([sys.executable, __file__, "use", str(package)], env=env).returncode)


if __name__ == "__main__":
    main()
