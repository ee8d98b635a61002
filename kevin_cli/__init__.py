"""kevin makes a PyTorch module faster: a model writes kernels, a judge verifies and times them.

From Python: `kevin_cli.optimize(module, example_inputs)`, see `kevin_cli.api`. Importing this imports nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kevin_cli.api import Optimized, optimize

__version__ = "0.1.0"
__all__ = ["Optimized", "__version__", "optimize"]


def __getattr__(name: str) -> Any:
    """What is offered from Python, imported when it is first asked for."""
    if name not in ("Optimized", "optimize"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("kevin_cli.api"), name)
