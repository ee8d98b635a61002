"""A program: the ceilings of a device, in the interpreter of the user's modules. `rates.py DEVICE SIZES PRECISIONS`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def main(device: str, sizes: str, precisions: str) -> None:
    """Prints one JSON object, as `reference.ceilings.measure` gives it."""
    sys.path[0] = str(ROOT)
    import torch

    from kevin_cli.harness.reference.ceilings import device_name, measure

    found = measure(
        torch.device(device), list(map(int, sizes.split(","))), [name for name in precisions.split(",") if name]
    )
    about = {"device_name": device_name(torch.device(device)), "torch": torch.__version__}
    print(json.dumps({**found, **about}))


if __name__ == "__main__":
    main(*sys.argv[1:])
