"""One extension as a candidate asked for it: sources, flags, functions; and its content key.

Made in the build sandbox and again in the worker from the arguments of `load_inline` or `load`; the same
arguments give the same key, which is how the worker finds the finished library. Standard library only.
Not covered by the key: header files that `load` sources include from outside their own folder.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

HEADER_SUFFIXES = (".h", ".hpp", ".hh", ".cuh", ".inc", ".inl")
CUDA_SUFFIXES = (".cu", ".cuh")
LABEL = re.compile(r"(?!kevin\.)\w[\w.+\[\]-]*$")
"""A name in the build folder; `kevin.` is for generated files."""
MAX_HEADERS = 64
MAX_HEADER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What is compiled. `sources` are (label, text); the label is what compiler messages name."""

    name: str
    cpp_sources: tuple[tuple[str, str], ...]
    cuda_sources: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Files beside the sources of a `load`, by name."""
    functions: tuple[tuple[str, str], ...] | None = None
    """Name and documentation of each function to bind; `None` when the sources bind for themselves."""
    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    include_paths: tuple[str, ...] = ()
    with_cuda: bool = False
    python_module: bool = True
    implicit_headers: bool = True
    inline: bool = True
    """Sources of `load_inline` are one unit for each language; those of `load` are one unit each."""

    def __post_init__(self) -> None:
        for label, _ in (*self.cpp_sources, *self.cuda_sources, *self.headers):
            if not LABEL.match(label):
                raise ValueError(f"'{label}' is not a plain file name")

    @property
    def key(self) -> str:
        """sha256 over everything that was asked for, in hex."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Extension:
        """The inverse of `to_json`, for data from outside. Raises `TypeError` or `ValueError` on anything else."""
        for name, value in data.items():
            if not (isinstance(value, (str, bool)) or (name == "functions" and value is None) or _is_texts(value)):
                raise TypeError(f"'{name}' of an extension is malformed")
        return cls(**{name: _frozen(value) for name, value in data.items()})


def _is_texts(value: Any) -> bool:
    """Strings in lists of lists, two deep at most."""
    rows = value if isinstance(value, (list, tuple)) else [None]
    flat = [item for row in rows for item in (row if isinstance(row, (list, tuple)) else [row])]
    return all(isinstance(item, str) for item in flat)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


def from_load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Extension:
    """The same arguments as torch's `load_inline`. Where things are built is ours to say."""
    if sycl_sources or with_sycl:
        raise ValueError("SYCL sources are not supported here")
    cuda = _labelled("cuda_sources", cuda_sources)
    return Extension(
        name=str(name),
        cpp_sources=_labelled("cpp_sources", cpp_sources),
        cuda_sources=cuda,
        functions=_functions(functions),
        cflags=_flags(extra_cflags),
        cuda_cflags=_flags(extra_cuda_cflags),
        ldflags=_flags(extra_ldflags),
        include_paths=_flags(extra_include_paths),
        with_cuda=bool(cuda) if with_cuda is None else bool(with_cuda),
        python_module=bool(is_python_module),
        implicit_headers=not no_implicit_headers,
    )


def from_load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Extension:
    """The same arguments as torch's `load`. The files are read now. Raises `OSError` when one is missing."""
    if is_standalone or with_sycl:
        raise ValueError("standalone programs and SYCL are not supported here")
    paths = [Path(source) for source in ([sources] if isinstance(sources, str) else sources)]
    texts = [(path, path.read_text()) for path in paths]
    cuda = tuple((path.name, text) for path, text in texts if path.suffix in CUDA_SUFFIXES)
    return Extension(
        name=str(name),
        cpp_sources=tuple((path.name, text) for path, text in texts if path.suffix not in CUDA_SUFFIXES),
        cuda_sources=cuda,
        headers=_headers_beside(paths),
        cflags=_flags(extra_cflags),
        cuda_cflags=_flags(extra_cuda_cflags),
        ldflags=_flags(extra_ldflags),
        include_paths=_flags(extra_include_paths),
        with_cuda=bool(cuda) if with_cuda is None else bool(with_cuda),
        python_module=bool(is_python_module),
        implicit_headers=False,
        inline=False,
    )


def _headers_beside(paths: Sequence[Path]) -> tuple[tuple[str, str], ...]:
    """Headers in the folders of the sources, which the sources may include by name."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(path.resolve().parent for path in paths):
        for path in sorted(folder.iterdir()):
            if path.suffix in HEADER_SUFFIXES and path.is_file() and path.stat().st_size <= MAX_HEADER_BYTES:
                found.setdefault(path.name, path.read_text(errors="replace"))
    return tuple(sorted(found.items())[:MAX_HEADERS])


def _labelled(label: str, sources: str | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    if not sources:
        return ()
    if isinstance(sources, str):
        return ((label, sources),)
    texts = [str(source) for source in sources]
    return tuple((label if len(texts) == 1 else f"{label}[{i}]", text) for i, text in enumerate(texts))


def _functions(
    functions: str | Sequence[str] | Mapping[str, str] | None,
) -> tuple[tuple[str, str], ...] | None:
    if functions is None:
        return None
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, Mapping):
        return tuple((str(name), str(doc)) for name, doc in functions.items())
    return tuple((str(name), str(name)) for name in functions)


def _flags(flags: Sequence[str] | str | None) -> tuple[str, ...]:
    if flags is None:
        return ()
    return (flags,) if isinstance(flags, str) else tuple(str(flag) for flag in flags)


def torch_cpp_extension() -> Any:
    """`torch.utils.cpp_extension`, also where setuptools is missing.

    torch imports setuptools there for `BuildExtension`, which no candidate and no package of ours uses; an
    environment without it (uv makes such ones) has to do. Standing in for it ends with the import.
    """
    if "torch.utils.cpp_extension" in sys.modules or importlib.util.find_spec("setuptools"):
        return importlib.import_module("torch.utils.cpp_extension")
    names = ("setuptools", "setuptools.command", "setuptools.command.build_ext")
    sys.modules.update({name: ModuleType(name) for name in names})
    top, command, build_ext = (sys.modules[name] for name in names)
    top.Command = type("Command", (), {})  # type: ignore[attr-defined]
    top.command, command.build_ext = command, build_ext  # type: ignore[attr-defined]
    build_ext.build_ext = type("build_ext", (), {})  # type: ignore[attr-defined]
    try:
        return importlib.import_module("torch.utils.cpp_extension")
    finally:
        for name in names:
            del sys.modules[name]
