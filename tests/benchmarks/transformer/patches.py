"""Puts packages that kevin wrote into a model, wherever they fit."""

import contextlib
import importlib
import sys
from pathlib import Path


def put_in(model, folders):
    """What can be undone again, by the place of each."""
    done = {}
    for folder in map(Path, folders):
        sys.path.insert(0, str(folder.parent))
        package = importlib.import_module(folder.name)
        for path, _ in list(model.named_modules()):
            with contextlib.suppress(ValueError):  # another module than the package's
                done[path] = package.patch(model, path)
    return done
