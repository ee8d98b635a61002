"""One extension to one library: ninja in a private folder, thin first, published by content.

The compiler runs inside the sandbox on sources that the candidate wrote; the controller decides on the
key, moves the finished library into the cache and keeps the whole log. What the cache holds under a key
was built from exactly that key's sources and flags, so one candidate cannot put a library in another's
place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kevin_cli.harness.build import messages, standard
from kevin_cli.harness.build.cache import attempt_folder, locked
from kevin_cli.harness.build.programs import environment, ninja
from kevin_cli.harness.build.recipe import HEADERS, LIBRARY, Recipe, has_lean_units, headers_version, write
from kevin_cli.harness.build.support import support_for
from kevin_cli.harness.build.toolchain import Toolchain, num_cpus
from kevin_cli.harness.process import run_to_end

Contain = Callable[..., list[str]]
"""`contain(argv, readable=, writable=, gpu=, pass_fds=) -> argv`: wraps a program in the sandbox."""
PYTHON_SYMBOL = re.compile(r"undefined reference to [`'\"‘]_?Py\w*['\"’]")
UNDEFINED = re.compile(r"undefined reference to [`'\"‘](.+?)['\"’]\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """How one compile ended. `library` is in the cache; `None` when it failed."""

    library: Path | None
    way: str
    note: str
    log: str
    """Errors only, capped. The whole log is `log_path`."""
    log_path: Path
    cached: bool
    timed_out: bool = False


def library_key(recipe: Recipe) -> str:
    """Sources, flags, our headers, torch, toolkit and architecture, in hex."""
    identity = [recipe.extension.key, recipe.device, recipe.architecture, headers_version(), *recipe.toolchain.identity]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


async def compile_extension(recipe: Recipe, *, cache: Path, contain: Contain, timeout_s: float) -> Compiled:
    """Build, or find built. The candidate's errors are in the answer; only faults of ours raise."""
    folder = cache / "libraries" / library_key(recipe)
    async with locked(cache / "locks" / folder.name[:32]):
        if (folder / "report.json").exists():
            return _published(folder)
        async with locked(cache / "locks" / "job", num_slots=num_cpus()):
            compiled = await _attempts(recipe, cache, contain, time.monotonic() + timeout_s)
        return compiled if compiled.timed_out else _publish(compiled, folder)


async def _attempts(recipe: Recipe, cache: Path, contain: Contain, deadline: float) -> Compiled:
    """Thin; thin again with everything if something was left out; stock if ours are to blame."""
    if not recipe.toolchain.has_thin:
        note = f"torch {recipe.toolchain.torch_version} is outside the range that the thin headers are tested with"
        return await _attempt(replace(recipe, way="stock"), cache, contain, deadline, note)
    compiled = await _attempt(recipe, cache, contain, deadline)
    reason = _blame(recipe.toolchain, compiled) if _failed(compiled) else None
    if _failed(compiled) and (standard.is_missed(_first_errors(compiled)) or (reason and has_lean_units(recipe))):
        whole = replace(recipe, standard_headers=standard.ALL, lean=False)
        compiled = await _attempt(whole, cache, contain, deadline)
        reason = _blame(recipe.toolchain, compiled) if _failed(compiled) else None
    if reason is not None:
        compiled = await _attempt(replace(recipe, way="stock"), cache, contain, deadline, reason)
    return compiled


def _failed(compiled: Compiled) -> bool:
    return compiled.library is None and not compiled.timed_out


def _first_errors(compiled: Compiled) -> str:
    blocks = messages.error_blocks(compiled.log_path.read_text(errors="replace"))
    return "\n".join(blocks[0]) if blocks else ""


def _blame(chain: Toolchain, compiled: Compiled) -> str | None:
    roots = [chain.cuda_root / "include"] if chain.cuda_root else []
    logs = _unit_logs(compiled.log_path.read_text(errors="replace"))
    return messages.missing_from_thin(logs, [*chain.torch_includes, *roots], HEADERS)


def _unit_logs(log: str) -> list[str]:
    """ninja prints each failed unit's output after its FAILED line."""
    parts = re.split(r"^FAILED: ", log, flags=re.MULTILINE)
    return parts[1:] or parts


async def _attempt(recipe: Recipe, cache: Path, contain: Contain, deadline: float, note: str = "") -> Compiled:
    if recipe.way == "thin":
        recipe = replace(recipe, support=(await support_for(recipe.toolchain, cache)).folder)
    folder = attempt_folder(cache, "compile")
    write(recipe, folder)
    argv = contain(
        [ninja(), "-C", str(folder), "-k", "0", "-j", "2"],
        readable=_readable(recipe),
        writable=[folder],
        gpu=False,
        pass_fds=(),
    )
    finished = await run_to_end(
        argv, cwd=folder, env=environment(folder), timeout_s=max(0.0, deadline - time.monotonic())
    )
    log_path = folder / "build.log"
    log_path.write_text(finished.output)
    library = folder / LIBRARY if finished.returncode == 0 and (folder / LIBRARY).is_file() else None
    undefined = _undefined(finished.output) if library else ""
    log = undefined or ("" if library else messages.relevant(finished.output, [str(folder), str(HEADERS)]))
    return Compiled(
        library=None if undefined else library,
        way=recipe.way,
        note=note,
        log=log,
        log_path=log_path,
        cached=False,
        timed_out=finished.timed_out,
    )


def _undefined(output: str) -> str:
    """Functions that were declared and never defined, found when linking."""
    names = [name for name in UNDEFINED.findall(output) if not re.match(r"_?Py[A-Z_]", name)]
    unique = dict.fromkeys(messages.OUR_NAMESPACE.sub("at::", name) for name in names)
    return "\n".join(f"error: undefined reference to '{name}'" for name in unique)


def _readable(recipe: Recipe) -> Sequence[Path]:
    chain = recipe.toolchain
    roots = [HEADERS, chain.torch_root, chain.python_include, Path(ninja()).parent]
    return [*roots, *(folder for folder in (chain.cuda_root, recipe.support) if folder)]


def _publish(compiled: Compiled, folder: Path) -> Compiled:
    """Move the result into the cache; readers see the whole of it or nothing."""
    attempt = compiled.log_path.parent
    report = {"way": compiled.way, "note": compiled.note, "log": compiled.log, "built": compiled.library is not None}
    for path in attempt.iterdir():
        if path.suffix == ".o" or path.name.startswith(".ninja"):
            path.unlink()
    (attempt / "report.json").write_text(json.dumps(report))
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(attempt, folder)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)  # a leftover without a report: its writer was killed
        os.rename(attempt, folder)
    return replace(_published(folder), cached=False)


def _published(folder: Path) -> Compiled:
    report = json.loads((folder / "report.json").read_text())
    return Compiled(
        library=folder / LIBRARY if report["built"] else None,
        way=report["way"],
        note=report["note"],
        log=report["log"],
        log_path=folder / "build.log",
        cached=True,
    )
