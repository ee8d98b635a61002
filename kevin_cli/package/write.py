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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import InfraError, UsageError
from kevin_cli.package.evidence import FORMAT, PAPERS, hashes, readable, record
from kevin_cli.package.faces import init_text, project_text
from kevin_cli.package.runtime._machine import processor
from kevin_cli.package.sources import copy_reference
from kevin_cli.types import Candidate, DeviceKind, Task, TaskReport, Verdict

SUFFIX = "_kevin"
RUNTIME = Path(__file__).parent / "runtime"
KEVIN = Path(__file__).parents[1]
SHARED = {
    "harness/build/extension.py": "_extension.py",
    "harness/worker/extensions.py": "_extensions.py",
    "harness/reference/attributes.py": "_attributes.py",
    "harness/strides.py": "_strides.py",
}
"""How the judge's worker finds a finished library is how a package does, how the reference tells two modules
apart, and what strides the judge gives a tensor; only the imports differ."""
OUR_IMPORT, THEIR_IMPORT = "from kevin_cli.harness.build.extension import", "from ._extension import"
LIBRARIES = "libraries"
LICENCE = "# SPDX-License-Identifier: Apache-2.0\n# Copied from kevin; kernel.py and reference.py are the user's own.\n"


def package_path(task: Task, out_dir: Path) -> Path:
    """Where the package of a task goes."""
    return out_dir.resolve() / f"{task.name}{SUFFIX}"


def refuse_foreign(path: Path) -> None:
    """Raises `UsageError` when `path` holds something that kevin did not write."""
    if path.is_symlink() or (path.exists() and not _is_free(path) and not _is_ours(path)):
        raise UsageError(
            f"{path} exists and was not written by kevin", "move it away, or choose another folder with --out"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The libraries that were verified, as the build left them: a manifest and what it names."""

    directory: Path
    capability: str = ""
    """Of the GPU they are for: `9.0`."""


def write(
    task: Task,
    candidate: Candidate,
    verdict: Verdict,
    report: TaskReport,
    out_dir: Path,
    finished: Finished | None = None,
    *,
    judged_at: str = "",
) -> Path:
    """Write the package and return its folder. Without `finished` it builds from its sources when first used.

    The same run gives the same files, byte for byte, when it is said when the verdict was made: `judged_at`.

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
            evidence = record(task, candidate, verdict, report, judged_at)
            _fill(draft, task, candidate, evidence, verdict, report, finished)
            _publish(draft, path, Path(scratch) / "old")
    except OSError as error:
        raise InfraError(
            f"can't write {path}: {error.strerror or error}", "choose another folder with --out"
        ) from error
    return path


def _fill(
    draft: Path,
    task: Task,
    candidate: Candidate,
    evidence: dict[str, Any],
    verdict: Verdict,
    report: TaskReport,
    finished: Finished | None,
) -> None:
    evidence["built_for"] = _copy_libraries(finished, draft, task, report) if finished else {}
    (draft / "kernel.py").write_text(candidate.source)
    copied = _copy_user_files(task, draft)
    (draft / "__init__.py").write_text(init_text(task, copied))
    (draft / "pyproject.toml").write_text(project_text(task, candidate, has_folder=(draft / "reference").is_dir()))
    (draft / "py.typed").touch()
    _copy_runtime(draft)
    evidence["files"] = hashes(draft, _code_of(draft))
    (draft / "VERIFICATION.md").write_text(readable(evidence, task, verdict, report))
    evidence["papers"] = hashes(draft, PAPERS)
    (draft / "verification.json").write_text(json.dumps(evidence, indent=1, ensure_ascii=False) + "\n")


def _code_of(draft: Path) -> list[str]:
    """Everything that runs when the package is used, where pip has installed it as well."""
    files = (path.relative_to(draft).as_posix() for path in sorted(draft.rglob("*")) if path.is_file())
    return [name for name in files if name not in ("pyproject.toml", "py.typed")]


def _copy_user_files(task: Task, draft: Path) -> bool:
    """The user's file and what makes its inputs. A module inside a model that can't be copied stands without."""
    try:
        copy_reference(Path(task.target.path), draft)
    except UsageError:
        if task.form != "instance":
            raise
        return False
    if task.target.inputs_from:
        shutil.copyfile(task.target.inputs_from.rpartition(":")[0], draft / "inputs.py")
    return True


def _copy_runtime(draft: Path) -> None:
    for source in RUNTIME.glob("_*.py"):
        if source.name != "__init__.py":
            (draft / source.name).write_text(LICENCE + source.read_text())
    for place, name in SHARED.items():
        (draft / name).write_text(LICENCE + (KEVIN / place).read_text().replace(OUR_IMPORT, THEIR_IMPORT))


def _copy_libraries(finished: Finished, draft: Path, task: Task, report: TaskReport) -> dict[str, str]:
    """Returns what the libraries fit: anywhere else the package builds its own."""
    extensions = json.loads((finished.directory / "manifest.json").read_text())["extensions"]
    versions = dict(report.versions)
    if not extensions or not {"torch", "python"} <= versions.keys():
        return {}
    home = draft / LIBRARIES
    home.mkdir()
    (home / "manifest.json").write_text(json.dumps({"extensions": extensions}, indent=1) + "\n")
    for entry in extensions.values():
        shutil.copyfile(finished.directory / entry["library"], home / entry["library"])
    python = ".".join(versions["python"].split(".")[:2])
    on_cpu = task.contract.device is DeviceKind.CPU
    fits = {"processor": processor()} if on_cpu else {"capability": finished.capability}
    return {"torch": versions["torch"], "python": python, **fits}


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
