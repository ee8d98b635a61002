"""Real compiles, few of them: one library with all features, shared by the whole session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kevin_cli.harness.build.compile import Compiled, compile_extension
from kevin_cli.harness.build.extension import Extension, from_load_inline
from kevin_cli.harness.build.recipe import Recipe
from kevin_cli.harness.build.toolchain import find
from kevin_cli.harness.worker.extensions import load_thin
from kevin_cli.types import DeviceKind

HERE = Path(__file__).parent


def uncontained(argv: Sequence[str], **_: Any) -> list[str]:
    return list(argv)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def compiled(cache: Path) -> Callable[..., Compiled]:
    """Compile an extension for the interpreter that runs the tests."""

    def run(extension: Extension, device: DeviceKind = DeviceKind.CPU) -> Compiled:
        architecture = "90a" if device is DeviceKind.CUDA else ""
        recipe = Recipe(extension=extension, toolchain=find(sys.executable), device=device, architecture=architecture)
        return asyncio.run(compile_extension(recipe, cache=cache, contain=uncontained, timeout_s=280))

    return run


@pytest.fixture(scope="session")
def features(compiled: Callable[..., Compiled]) -> ModuleType:
    """`features.cpp`, built with -O1 and loaded."""
    source = (HERE / "features.cpp").read_text()
    built = compiled(from_load_inline("features", source, extra_cflags=["-O1"]))
    assert built.library is not None, built.log
    return load_thin(built.library, "features")
