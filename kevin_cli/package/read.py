"""A package from its folder: what it says was verified, and the pieces to judge it again from.

Reading decides nothing about correctness. `changed_files` compares the folder with the hashes that were written
with it, `unpack` lays the user's own code out as it was judged, and `differences` compares a module that was
lowered here with the recorded contract. The numbers of a domain of values are left out of that comparison: they
are what a few random draws happened to hold.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from kevin_cli.package.evidence import DESCRIBED, FORMAT, SCHEMA_VERSION, hashes
from kevin_cli.records import from_plain, to_plain
from kevin_cli.types import Candidate, Contract, InputRecipe, Target, Task, Verdict

NO_PACKAGE_HINT = "name a folder that kevin optimize wrote: rms_norm_kevin"
NO_REFERENCE_HINT = (
    "it was made of a module whose file could not be copied; run kevin check with the module and {folder}/kernel.py"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """What a folder holds, as `verification.json` tells it."""

    folder: Path
    record: Mapping[str, Any]
    contract: Contract
    verdict: Verdict
    """The recorded one, without single times."""

    @property
    def candidate(self) -> Candidate:
        """The kernel as it lies there now, which need not be the one that was verified."""
        source = (self.folder / "kernel.py").read_text(encoding="utf-8")
        return Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest())


def read_package(folder: Path) -> Package:
    """Raises `UsageError` when the folder is no package, or its record can't be read."""
    try:
        record = json.loads((folder / "verification.json").read_text(encoding="utf-8"))
    except OSError as error:
        what = (
            "is not a package of kevin" if folder.is_dir() else "is not there" if not folder.exists() else "is a file"
        )
        raise UsageError(f"{folder} {what}", NO_PACKAGE_HINT) from error
    except ValueError as error:
        raise UsageError(f"{folder}/verification.json can't be read", "write the package again") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise UsageError(f"{folder} is not a package of kevin", NO_PACKAGE_HINT)
    if record.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(f"{folder} was written by kevin {record.get('kevin')}", "verify it with that version")
    try:
        contract, verdict = from_plain(Contract, record["contract"]), from_plain(Verdict, record["verdict"])
    except (KeyError, ValueError) as error:
        raise UsageError(f"{folder}/verification.json is damaged", "write the package again") from error
    return Package(folder=folder.resolve(), record=record, contract=contract, verdict=verdict)


def changed_files(package: Package) -> list[str]:
    """What differs from what was written, one phrase a file; `kernel.py` is always among what is compared."""
    recorded = {"kernel.py": package.record["candidate"], **package.record.get("files", {})}
    found = hashes(package.folder, recorded)
    return [
        f"{name} is {'missing' if name not in found else 'not what was verified'}"
        for name, digest in sorted(recorded.items())
        if found.get(name) != digest
    ]


def unpack(package: Package, home: Path, python: str) -> Target:
    """Lay the user's file, its siblings and what makes its inputs out in `home`.

    Raises `UsageError` when the package holds no copy of the user's code.
    """
    folder, record = package.folder, package.record
    home.mkdir(parents=True, exist_ok=True)
    if (folder / "reference").is_dir():
        shutil.copytree(folder / "reference", home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (home / "__init__.py").rename(home / "reference.py")
    elif (folder / "reference.py").is_file():
        shutil.copyfile(folder / "reference.py", home / "reference.py")
    else:
        hint = NO_REFERENCE_HINT.format(folder=folder.name)
        raise UsageError(f"{folder.name} holds no copy of the module that it was verified against", hint)
    return Target(
        path=str(home / "reference.py"),
        class_name=record["target"],
        python=python,
        submodule=record["submodule"],
        recipes=tuple(from_plain(InputRecipe, recipe) for recipe in record["recipes"]),
        inputs_from=_inputs_from(package, home / "given"),
    )


def _inputs_from(package: Package, home: Path) -> str:
    """In a folder of its own: a sibling of the user's file may have the same name."""
    if not (package.folder / "inputs.py").is_file():
        return ""
    home.mkdir()
    shutil.copyfile(package.folder / "inputs.py", home / "inputs.py")
    return f"{home / 'inputs.py'}:{package.record.get('inputs_factory') or 'get_inputs'}"


def differences(package: Package, task: Task) -> list[str]:
    """Where a task that was lowered from the package is not the recorded one, by the name of the field."""
    here = json.loads(json.dumps({name: getattr(task, name) for name in DESCRIBED}, default=to_plain))
    recorded = package.record
    return [name for name in DESCRIBED if _plain(here[name]) != _plain(recorded.get(name))]


def _plain(value: Any) -> Any:
    """Without the numbers of domains."""
    if isinstance(value, dict):
        return {key: inner["kind"] if key == "domain" and inner else _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
