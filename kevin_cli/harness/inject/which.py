"""Which modules are meant: those whose class (or which themselves) the target's file binds under a name."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any


class Which:
    """Answers for a module whether it is the one that `file.py:Name` or `file.py:Name::sub.path` names."""

    def __init__(self, path: str, name: str, submodule: str) -> None:
        self._path, self._name, self._submodule = os.path.realpath(path), name, submodule
        self._kinds: dict[type, bool] = {}
        self._modules: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._parts: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_of_class(self, module: Any) -> bool:
        """An instance of exactly the class that is named."""
        kind = type(module)
        if kind not in self._kinds:
            self._kinds[kind] = any(bound is kind for bound in self._bound())
        return self._kinds[kind]

    def is_whole(self, module: Any) -> bool:
        """An instance of the class that is named, or the very instance. Answered once for each module."""
        if self.is_of_class(module):
            return True
        if module not in self._modules:
            self._modules[module] = any(bound is module for bound in self._bound())
        return self._modules[module]

    def is_meant(self, module: Any) -> bool:
        """The whole, or with a submodule's path the module there."""
        whole = self.is_whole(module)
        if not self._submodule:
            return whole
        if whole:
            try:
                self._parts.add(module.get_submodule(self._submodule))
            except AttributeError:
                return False
        return module in self._parts

    def _bound(self) -> list[Any]:
        """What the file's name stands for now; a file may be imported under several names, or be the script."""
        return [
            vars(module)[self._name]
            for module in list(sys.modules.values())
            if self._name in getattr(module, "__dict__", ()) and self._is_the_file(module)
        ]

    def _is_the_file(self, module: Any) -> bool:
        file = vars(module).get("__file__")
        return isinstance(file, str) and os.path.realpath(file) == self._path
