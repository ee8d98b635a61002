"""A live module and a call of it, written as files that the reference process can read.

The module is pickled by `torch.save` together with its weights, so its classes must be importable: from a file,
or from the script that runs (`__main__`), which is imported under another name then. What the reference process
unpickles is that file of ours and nothing else. The inputs are written as those of `--run` are: values with the
statistics of the given ones, fresh in every draw.

Not promised: that a module with state outside of itself (globals, open files, hooks) is the same once it is read.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kevin_cli.errors import TaskError, UsageError
from kevin_cli.harness.inject.seen import NotPlainError, form_of, look_at, spec_of
from kevin_cli.harness.seen_calls import Seen, write_inputs

CLASS_HINT = (
    "put its class into a .py file and import it from there, or name the file: kevin_cli.optimize('net.py:Net')"
)

TARGET = '''"""A live {class_name}, as kevin_cli.optimize was given it."""

import importlib.util
import pickle
import sys
import types
from pathlib import Path

import torch

STANDS_ALONE = False
"""The weights lie beside it, and classes come from where they are on this machine."""
MAIN = {main!r}
"""The script that gave it, where the class was defined there."""
sys.path += [folder for folder in {paths!r} if folder not in sys.path]


def _main():
    if "kevin_live_main" not in sys.modules:
        spec = importlib.util.spec_from_file_location("kevin_live_main", MAIN)
        sys.modules["kevin_live_main"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["kevin_live_main"])
    return sys.modules["kevin_live_main"]


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return getattr(_main(), name) if module == "__main__" else super().find_class(module, name)


def {name}():
    reader = types.SimpleNamespace(Unpickler=_Unpickler, load=pickle.load, __name__="kevin_live")
    file = Path(__file__).with_name("module.pt")
    return torch.load(file, "cpu", pickle_module=reader, weights_only=False)
'''


def write_module(folder: Path, module: Any, name: str) -> Path:
    """The file whose function `name` gives a copy of the module. Raises `UsageError` when it can't be written."""
    import torch

    main = _main_file(module)
    try:
        torch.save(module, folder / "module.pt")
    except (AttributeError, TypeError, RuntimeError, pickle.PicklingError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"{type(module).__name__} can't be handed to another process: {reason}", CLASS_HINT) from error
    file = folder / f"{name}.py"
    paths = [str(Path(entry).resolve()) for entry in sys.path]
    text = TARGET.format(class_name=type(module).__name__, main=main, paths=paths, name=name)
    file.write_text(text, encoding="utf-8")
    return file


def _main_file(module: Any) -> str:
    """The script, when a class inside the module was defined there; empty otherwise. Raises `UsageError` for a class
    that is in no file, as in a notebook's cell."""
    kinds = {type(part) for part in module.modules() if type(part).__module__ == "__main__"}
    for kind in kinds:
        try:
            file = inspect.getsourcefile(kind)
        except (OSError, TypeError):
            file = None
        if file is None or not Path(file).is_file() or "ipykernel" in file:
            raise UsageError(f"the class {kind.__name__} is in no file", CLASS_HINT)
        return str(Path(file).resolve())
    return ""


def write_call(folder: Path, example_inputs: Any) -> Path:
    """The file with `get_inputs` for arguments like these: one tensor, a sequence by position, a dict by name.

    Raises `TaskError` for arguments that can't be written down.
    """
    import torch

    args: Sequence[Any] = (example_inputs,)
    keywords: Mapping[str, Any] = {}
    if isinstance(example_inputs, Mapping):
        args, keywords = (), example_inputs
    elif isinstance(example_inputs, list | tuple):
        args = example_inputs
    tensors: list[Any] = []
    try:
        form = [form_of(list(args), tensors), form_of(dict(keywords), tensors)]
    except NotPlainError as error:
        raise TaskError(
            f"example_inputs hold a {error}",
            "give tensors, numbers, strings, None, and lists, tuples and dicts of them",
        ) from error
    torch.save([tensor.detach().cpu().clone() for tensor in tensors], folder / "call.pt")
    kind = {
        "form": form,
        "specs": [spec_of(tensor) for tensor in tensors],
        "looks": [look_at(tensor) for tensor in tensors],
        "kept": ["call.pt"],
    }
    return write_inputs(folder, Seen(kinds=(kind,), num_calls=1, init={}, state="", odd=(), faults=()))
