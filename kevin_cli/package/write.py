"""A verified candidate -> `<name>_kevin/`, a folder that can be imported in place of the user's module.

The folder appears whole or not at all, and replaces only a folder that kevin wrote. Nothing that was not
judged correct is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from kevin_cli.errors import InfraError, UsageError
from kevin_cli.package.evidence import FORMAT, readable, record
from kevin_cli.package.sources import copy_reference
from kevin_cli.types import Candidate, Task, TaskReport, Verdict

SUFFIX = "_kevin"
RUNTIME = Path(__file__).parent / "runtime"

INIT = '''"""{name}: the user's {class_name} with a kernel that kevin verified; see VERIFICATION.md.

Use it in place of your own: same constructor, same `state_dict`. The kernel runs inside its contract (in
evaluation mode, under `torch.no_grad()`), your own `forward` everywhere else.
"""

from pathlib import Path

from . import _drop_in

_FOLDER = Path(__file__).resolve().parent
_ORIGINAL = _drop_in.import_reference(__name__, _FOLDER).{class_name}


class {class_name}(_drop_in.DropIn, _ORIGINAL):
    __doc__ = _ORIGINAL.__doc__
    _kevin_original = _ORIGINAL
    _kevin_folder = _FOLDER
    _kevin_record = _drop_in.load_record(_FOLDER)


__all__ = ["{class_name}"]
'''


def package_path(task: Task, out_dir: Path) -> Path:
    """Where the package of a task goes."""
    return out_dir.resolve() / f"{task.name}{SUFFIX}"


def refuse_foreign(path: Path) -> None:
    """Raises `UsageError` when `path` holds something that kevin did not write."""
    if path.is_symlink() or (path.exists() and not _is_free(path) and not _is_ours(path)):
        raise UsageError(
            f"{path} exists and was not written by kevin", "move it away, or choose another folder with --out"
        )


def write(
    task: Task, candidate: Candidate, verdict: Verdict, report: TaskReport, out_dir: Path, built: Path | None = None
) -> Path:
    """Write the package and return its folder. `built` holds the finished libraries, when there are any.

    Raises `UsageError` when the place is taken by something else, `InfraError` when it can't be written.
    """
    if not verdict.is_correct:
        raise ValueError("only a correct candidate is written")
    path = package_path(task, out_dir)
    refuse_foreign(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as scratch:
            draft = Path(scratch) / "new"
            draft.mkdir()
            _fill(draft, task, candidate, verdict, report)
            _publish(draft, path, Path(scratch) / "old")
    except OSError as error:
        raise InfraError(
            f"can't write {path}: {error.strerror or error}", "choose another folder with --out"
        ) from error
    return path


def _fill(draft: Path, task: Task, candidate: Candidate, verdict: Verdict, report: TaskReport) -> None:
    evidence = record(task, candidate, verdict, report)
    (draft / "kernel.py").write_text(candidate.source)
    (draft / "__init__.py").write_text(INIT.format(name=task.name, class_name=task.target.class_name))
    (draft / "verification.json").write_text(json.dumps(evidence, indent=1, ensure_ascii=False) + "\n")
    (draft / "VERIFICATION.md").write_text(readable(evidence, task, verdict, report))
    for source in RUNTIME.glob("*.py"):
        shutil.copyfile(source, draft / source.name)
    copy_reference(Path(task.target.path), draft)


def _publish(draft: Path, path: Path, old: Path) -> None:
    """Two renames: the old package goes aside, the new one takes its place."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, old)
    os.rename(draft, path)


def _is_free(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _is_ours(path: Path) -> bool:
    try:
        found = json.loads((path / "verification.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("format") == FORMAT
