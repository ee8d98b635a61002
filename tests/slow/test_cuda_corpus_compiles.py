"""Every CUDA program that is planted for the judge compiles, without a GPU: a bug that does not compile tests nothing.

Needs nvcc, so it is skipped where there is none.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kevin_cli.corpus import read_corpus
from kevin_cli.harness.build.build import BuildRequest, build
from kevin_cli.harness.build.recorder import RECORDERS
from kevin_cli.harness.build.toolchain import find
from kevin_cli.types import DeviceKind, Tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
FOR_SANITIZERS = sorted((Path(__file__).parents[1] / "gpu" / "sanitizer").glob("*.py"))
PROGRAMS = {planted.id: planted.source for planted in read_corpus() if planted.device == "cuda"}
PROGRAMS |= {f"sanitizer/{path.stem}": path.read_text() for path in FOR_SANITIZERS if path.stem != "reference"}


def uncontained(argv: Sequence[str], **_: Any) -> list[str]:
    return list(argv)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if find(sys.executable).nvcc is None:
        pytest.skip("there is no nvcc")
    yield tmp_path_factory.mktemp("cache")
    RECORDERS.close()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_cuda_program_compiles_with_the_thin_headers(name: str, cache: Path) -> None:
    request = BuildRequest(
        source=PROGRAMS[name], digest="", python=sys.executable, device=DeviceKind.CUDA, init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"), timeout_s=600, cache=cache, contain=uncontained, capability=(9, 0),
    )  # fmt: skip
    found = asyncio.run(build(request))
    assert (found.status, found.report.way) == ("built", "thin"), f"{found.detail}\n{found.log}{found.report.note}"
