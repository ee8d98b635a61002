"""What is compiled once for a machine and linked into every thin library: the bodies behind the thin headers.

The headers only declare what is not a template (`support/*.cpp` has it), so a candidate's compile neither parses
nor generates it. Beside it lie *stubs* of libtorch: libraries with the names and the C symbols of the real ones
and nothing else. The linker reads those instead of half a gigabyte, and what it writes is the same: the
loader meets the real ones. Without `nm` the real ones are used.

Made when the first candidate is built (two to four seconds), found by content afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kevin_cli.errors import InfraError
from kevin_cli.harness.build.cache import attempt_folder, locked
from kevin_cli.harness.build.programs import environment, ninja
from kevin_cli.harness.build.recipe import HEADERS, LAUNCH, SUPPORT, SUPPORT_LIBRARY, headers_version
from kevin_cli.harness.build.toolchain import TORCH_LIBRARIES, Toolchain, num_cpus
from kevin_cli.harness.process import run_to_end

TIMEOUT_S = 300.0
EVERY_LIBRARY_HAS = {"torch_cpu": "aoti_torch_get_data_ptr"}
RULES = """
rule cxx
  command = $cxx -std=$standard -O2 -fPIC -fvisibility=hidden -I$headers -c $in -o $out
rule ar
  command = ar rcs $out $in
rule symbols
  command = nm -D --defined-only $in | sed -nE 's/.* [TW] ((aoti|torch)_[A-Za-z0-9_]*)$$/.globl \\1\\n.type \\1,@function\\n\\1:/p' > $out && echo '.section .note.GNU-stack,"",@progbits' >> $out && grep -q "$has" $out
rule stub
  command = $cxx -shared -nostdlib -Wl,-soname,$soname $in -o $out
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Support:
    """The finished folder: `libkevin.a`, `launch.cpp.o` and perhaps stubs."""

    folder: Path


async def support_for(chain: Toolchain, cache: Path) -> Support:
    """Make it, or find it. Raises `InfraError` with the compiler's words when it does not compile."""
    identity = json.dumps([headers_version(), chain.cxx_standard, *chain.identity])
    folder = cache / "support" / hashlib.sha256(identity.encode()).hexdigest()
    if not folder.exists():
        async with locked(cache / "locks" / f"support-{folder.name[:32]}"):
            if not folder.exists():
                await _make(chain, cache, folder)
    return Support(folder)


async def _make(chain: Toolchain, cache: Path, folder: Path) -> None:
    attempt = attempt_folder(cache, "support")
    (attempt / "build.ninja").write_text(_ninja_text(chain))
    argv = [ninja(), "-C", str(attempt), "-j", str(num_cpus())]
    finished = await run_to_end(argv, cwd=attempt, env=environment(attempt), timeout_s=TIMEOUT_S)
    if finished.returncode != 0:
        raise InfraError(f"the support library does not compile: {finished.output[-2000:]}", "run `kevin doctor`")
    folder.parent.mkdir(parents=True, exist_ok=True)
    os.rename(attempt, folder)


def _ninja_text(chain: Toolchain) -> str:
    lines = [f"cxx = {chain.cxx}", f"standard = {chain.cxx_standard}", f"headers = {HEADERS}", RULES]
    sources = sorted(SUPPORT.glob("*.cpp"))
    lines += [f"build {source.name}.o: cxx {source}" for source in sources]
    members = " ".join(f"{source.name}.o" for source in sources if f"{source.name}.o" != LAUNCH)
    lines += [f"build {SUPPORT_LIBRARY}: ar {members}", *_stubs(chain), ""]
    return "\n".join(lines)


def _stubs(chain: Toolchain) -> list[str]:
    if not shutil.which("nm"):
        return []
    lines = []
    for name in TORCH_LIBRARIES:
        real = chain.torch_lib / f"lib{name}.so"
        if real.exists():
            lines += [f"build {name}.s: symbols {real}", f"  has = {EVERY_LIBRARY_HAS.get(name, '')}"]
            lines += [f"build stubs/lib{name}.so: stub {name}.s", f"  soname = lib{name}.so"]
    return lines
