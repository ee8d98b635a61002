"""The file that the controller starts in the user's environment: `python launch.py PROGRAM FD`.

It makes `kevin_cli.harness` importable by its own place on disk and nothing else of ours: no
site-packages of kevin's environment reach the user's interpreter, and no package of the user's can
shadow ours. PROGRAM is `reference`, `worker`, `build` or `usual`; FD is the inherited end of the channel;
`spin` after it: look for requests again and again while calls are clocked. `alone` has no channel: a folder
stands in the place of FD.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

PROGRAMS = {
    "reference": "kevin_cli.harness.reference.main",
    "worker": "kevin_cli.harness.worker.main",
    "build": "kevin_cli.harness.build.record",
    "usual": "kevin_cli.harness.usual.main",
    "alone": "kevin_cli.harness.worker.alone",
}


def _bind(name: str, folder: Path) -> None:
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def main() -> None:
    harness = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != harness]
    _bind("kevin_cli", harness.parent)
    _bind("kevin_cli.harness", harness)
    options = {"spins": True} if sys.argv[3:] == ["spin"] else {}
    program, end = importlib.import_module(PROGRAMS[sys.argv[1]]), sys.argv[2]
    program.main(int(end) if end.isdecimal() else Path(end), **options)


if __name__ == "__main__":
    main()
