"""Loaded by Python itself before the user's program, since this folder is first on `PYTHONPATH`.

Starts the hook that `KEVIN_WATCH` describes, then gives way to the `sitecustomize` that would have been loaded
without us.
"""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.normpath(os.path.join(_HERE, *[os.pardir] * 4))


def _start_hook(plan: str) -> None:
    sys.path.insert(0, _ROOT)
    try:
        from kevin_cli.harness.inject import hook
    finally:
        sys.path.remove(_ROOT)
    hook.install(plan)


def _load_the_users_own() -> None:
    ours = sys.modules.pop("sitecustomize", None)
    path = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    sys.path[:] = path
    importlib.invalidate_caches()
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    if ours is not None:
        sys.modules.setdefault("sitecustomize", ours)


if os.environ.get("KEVIN_WATCH"):
    _start_hook(os.environ["KEVIN_WATCH"])
_load_the_users_own()
