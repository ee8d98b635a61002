"""From an extension to files: generated units, flags as torch's builds have them, and a build.ninja.

Two ways: `thin` (our headers first, torch's not on the path at all, so that the two never mix) and
`stock` (what torch's own `load_inline` would do). Flags are those of torch's cpp_extension. Ours, put
before the candidate's so that it can say otherwise: on the CPU target `-O3 -march=native` (what is built
here runs here), `-fopenmp`, and for CUDA the exact architecture, unless the candidate names one.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from kevin_cli.harness.build.extension import Extension
from kevin_cli.harness.build.standard import headers_for
from kevin_cli.harness.build.toolchain import TORCH_LIBRARIES, Toolchain
from kevin_cli.types import DeviceKind

Way = Literal["thin", "stock"]
HEADERS = Path(__file__).resolve().parent / "include"
SUPPORT = Path(__file__).resolve().parent / "support"
SUPPORT_LIBRARY, LAUNCH = "libkevin.a", "launch.cpp.o"
LIBRARY = "library.so"
NVCC_DEFINES = (
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one extension is built on one machine."""

    extension: Extension
    toolchain: Toolchain
    device: DeviceKind
    architecture: str
    """For nvcc, without prefix: `90a`. Empty when there is no CUDA."""
    way: Way = "thin"
    standard_headers: tuple[str, ...] = ()
    """More standard headers than the sources name."""
    lean: bool = True
    """Leave out operators and binding where a CUDA unit names none."""
    support: Path | None = None
    """For `thin`: the folder that `support.py` made."""

    @property
    def module_name(self) -> str:
        """Differs with the content, so that two candidates with the same name never meet."""
        return f"kevin_{self.extension.key[:16]}"


@dataclass(frozen=True, slots=True)
class Unit:
    """One file to compile."""

    file: str
    text: str
    is_cuda: bool


@lru_cache(maxsize=1)
def headers_version() -> str:
    """A digest of our own headers and what stands behind them: another one, another library."""
    digest = hashlib.sha256()
    for path in sorted([*HEADERS.rglob("*.h"), *SUPPORT.glob("*.cpp")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _wraps_launches(recipe: Recipe) -> bool:
    return recipe.way == "thin" and bool(recipe.extension.cuda_sources)


def units(recipe: Recipe) -> list[Unit]:
    """The generated translation units. The candidate's own text stays in files of its own."""
    extension = recipe.extension
    if not extension.inline:
        plain = [_unit(recipe, i, [source], False) for i, source in enumerate(extension.cpp_sources)]
        return plain + [_unit(recipe, i, [source], True) for i, source in enumerate(extension.cuda_sources)]
    main = _unit(recipe, 0, extension.cpp_sources, False)
    made = [replace(main, text=main.text + _bindings(extension))]
    return [*made, _unit(recipe, 0, extension.cuda_sources, True)] if extension.cuda_sources else made


def _unit(recipe: Recipe, index: int, sources: Sequence[tuple[str, str]], is_cuda: bool) -> Unit:
    return Unit(f"kevin.{index}.{'cu' if is_cuda else 'cpp'}", _wrapper(recipe, sources, is_cuda), is_cuda)


def has_lean_units(recipe: Recipe) -> bool:
    """Whether another attempt without leaving anything out would be a different one."""
    return any(unit.is_cuda and "#define KEVIN_LEAN" in unit.text for unit in units(recipe))


@lru_cache(maxsize=1)
def operator_names() -> frozenset[str]:
    """What `kevin/operators.h` adds to the lean part."""
    text = (SUPPORT / "operators.cpp").read_text() + (HEADERS / "kevin/methods.inc.h").read_text()
    return frozenset(re.findall(r"(?:KEVIN_FIND\(\"|\bX\(|KEVIN_X\()(\w+)", text)) - {"name"}


def needs_operators(source: str) -> bool:
    """Whether a source calls an operator or binds functions itself. A miss costs a second, thin, attempt."""
    called = re.findall(r"(?:\.|->|\btorch::|\bat::)\s*(\w+?)_?\s*\(", source)
    return "pybind11" in source.lower() or "py::" in source or not operator_names().isdisjoint(called)


def _wrapper(recipe: Recipe, sources: Sequence[tuple[str, str]], is_cuda: bool) -> str:
    lines = []
    if recipe.way == "thin":
        text = "\n".join(text for _, text in sources)
        if is_cuda and recipe.lean and not needs_operators(text):
            lines.append("#define KEVIN_LEAN")
        named = headers_for(text)
        lines += [f"#include <{name}>" for name in recipe.standard_headers or named]
    if recipe.extension.implicit_headers:
        implied = ("torch/types.h", "cuda.h", "cuda_runtime.h") if is_cuda else ("torch/extension.h",)
        lines += [f"#include <{name}>" for name in implied]
    return "\n".join([*lines, *(f'#include "{label}"' for label, _ in sources), ""])


def _bindings(extension: Extension) -> str:
    if extension.functions is None:
        return ""
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for name, doc in extension.functions:
        lines.append(f'm.def("{name}", torch::wrap_pybind_function({name}), {json.dumps(doc)});')
    return "\n".join([*lines, "}", ""])


def write(recipe: Recipe, folder: Path) -> None:
    """Write sources, units and build.ninja into an empty folder."""
    extension = recipe.extension
    for label, text in (*extension.cpp_sources, *extension.cuda_sources, *extension.headers):
        (folder / label).write_text(text if text.endswith("\n") else text + "\n")
    made = units(recipe)
    for unit in made:
        (folder / unit.file).write_text(unit.text)
    (folder / "build.ninja").write_text(_ninja(recipe, made))


def _ninja(recipe: Recipe, made: Sequence[Unit]) -> str:
    chain = recipe.toolchain
    lines = [
        f"cxx = {chain.cxx}",
        f"nvcc = {chain.nvcc or 'nvcc'}",
        f"cflags = {_joined(cxx_flags(recipe))}",
        f"cuda_cflags = {_joined(nvcc_flags(recipe))}",
        f"ldflags = {_joined(link_flags(recipe))}",
        "rule cxx",
        "  command = $cxx $cflags -c $in -o $out",
        "rule nvcc",
        "  command = $nvcc $cuda_cflags -c $in -o $out",
        "rule link",
        "  command = $cxx -shared $in $ldflags -o $out",
    ]
    objects = [f"{unit.file}.o" for unit in made]
    for unit, output in zip(made, objects, strict=True):
        lines.append(f"build {output}: {'nvcc' if unit.is_cuda else 'cxx'} {unit.file}")
    lines += [f"build {LIBRARY}: link {' '.join(objects)}", f"default {LIBRARY}", ""]
    return "\n".join(lines)


def _joined(flags: Sequence[str]) -> str:
    return shlex.join(flags).replace("$", "$$")


def _common(recipe: Recipe) -> list[str]:
    flags = [f"-DTORCH_EXTENSION_NAME={recipe.module_name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    flags += [f"-I{path}" for path in recipe.extension.include_paths]
    if recipe.way == "thin":
        return [*flags, f"-I{HEADERS}"]
    flags += [item for path in recipe.toolchain.torch_includes for item in ("-isystem", str(path))]
    return [*flags, "-isystem", str(recipe.toolchain.python_include)]


def cxx_flags(recipe: Recipe) -> list[str]:
    """What g++ gets for a .cpp file."""
    flags = [*_common(recipe), *_cuda_include(recipe), "-fPIC", f"-std={recipe.toolchain.cxx_standard}"]
    flags += ["-fdiagnostics-color=never", "-fmax-errors=20"]
    if recipe.way == "thin" and recipe.extension.python_module:
        flags.append("-fvisibility=hidden")
    if recipe.device is DeviceKind.CPU:
        flags += ["-O3", "-march=native", "-fopenmp"]
    return [*flags, *_words(recipe.extension.cflags)]


def nvcc_flags(recipe: Recipe) -> list[str]:
    """What nvcc gets for a .cu file."""
    given = _words(recipe.extension.cuda_cflags)
    flags = [*_common(recipe), *_cuda_include(recipe), *NVCC_DEFINES]
    if recipe.architecture and not any("arch" in flag for flag in given):
        flags.append(f"-gencode=arch=compute_{recipe.architecture},code=sm_{recipe.architecture}")
    host = "-fPIC,-fdiagnostics-color=never"
    if recipe.way == "thin" and recipe.extension.python_module:
        host += ",-fvisibility=hidden"
    flags += ["--compiler-options", host, *given]
    return (
        flags if any(flag.startswith("-std=") for flag in given) else [*flags, f"-std={recipe.toolchain.cxx_standard}"]
    )


def _cuda_include(recipe: Recipe) -> list[str]:
    root = recipe.toolchain.cuda_root
    return ["-isystem", str(root / "include")] if root and recipe.extension.with_cuda else []


def link_flags(recipe: Recipe) -> list[str]:
    """Libraries; libtorch's CUDA half only where this torch has it."""
    lib = recipe.toolchain.torch_lib
    names = [name for name in TORCH_LIBRARIES if "cuda" not in name]
    if recipe.way == "stock":
        names += ["torch", "torch_python"]
    if recipe.extension.with_cuda:
        names += [name for name in TORCH_LIBRARIES if "cuda" in name and (lib / f"lib{name}.so").exists()]
    # Named even if nothing needs them for certain: what is declared weak must find them at run time.
    flags = [*_support(recipe), f"-L{lib}", "-Wl,--no-as-needed", *(f"-l{name}" for name in names), "-Wl,--as-needed"]
    if recipe.extension.with_cuda and recipe.toolchain.cuda_root:
        flags += [*_cudart(recipe.toolchain.cuda_root)]
    if _wraps_launches(recipe):
        flags += ["-Wl,--wrap=cudaLaunchKernel", "-Wl,--wrap=__cudaLaunchKernel"]
    if recipe.device is DeviceKind.CPU:
        flags.append("-fopenmp")
    # Undefined functions are found now and not at the first call; Python's own stay open on purpose.
    flags += ["-Wl,--unresolved-symbols=report-all", "-Wl,--warn-unresolved-symbols"]
    return [*flags, *_words(recipe.extension.ldflags)]


def _support(recipe: Recipe) -> list[str]:
    """Ours, and the stubs in front of torch's own libraries."""
    if recipe.support is None:
        return []
    launch = [str(recipe.support / LAUNCH)] if _wraps_launches(recipe) else []
    return [*launch, str(recipe.support / SUPPORT_LIBRARY), f"-L{recipe.support / 'stubs'}"]


def _cudart(root: Path) -> list[str]:
    for folder in (root / "lib64", root / "lib"):
        found = sorted(folder.glob("libcudart.so*"))
        if found:
            return [f"-L{folder}", f"-l:{found[0].name}"]
    return []


def _words(flags: Sequence[str]) -> list[str]:
    """Flags as a shell would split them: torch writes them unquoted into its build file."""
    return [word for flag in flags for word in shlex.split(flag)]
