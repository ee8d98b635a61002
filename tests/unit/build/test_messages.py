"""Which compiler errors blame the thin headers, and what of a log people see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kevin_cli.harness.build.messages import error_blocks, missing_from_thin, relevant
from kevin_cli.harness.build.recipe import HEADERS
from kevin_cli.harness.build.standard import headers_for, is_missed
from kevin_cli.harness.build.toolchain import find


@pytest.fixture(scope="module")
def includes() -> tuple[Path, ...]:
    return find(sys.executable).torch_includes


BLAMED = [
    "cpp_sources:1:10: fatal error: ATen/native/cpu/Loops.h: No such file or directory",
    "cpp_sources:3:21: error: 'fft_fft' is not a member of 'torch'",
    "cuda_sources(5): error: namespace \"torch\" has no member \"fft_fft\"",
    "cpp_sources:3:12: error: 'class kevin_torch::Tensor' has no member named 'index_put_'",
    "cpp_sources:3:12: error: 'const class kevin_torch::Tensor' has no member named 'index_put_'",
    "cuda_sources(9): error: class \"kevin_torch::Tensor\" has no member \"index_put_\"",
    "cpp_sources:9:1: error: 'TORCH_LIBRARY' was not declared in this scope",
    "cpp_sources:9:15: error: expected constructor, destructor before '(' token\n    9 | TORCH_LIBRARY(x, m) {",
    "cuda_sources(4): error: identifier \"AT_DISPATCH_COMPLEX_TYPES\" is undefined",
    "cpp_sources:4:1: error: no matching function for call to 'sum(kevin_torch::Tensor&, const char [2])'",
]  # fmt: skip
HONEST = [
    "cpp_sources:1:10: fatal error: my_header.h: No such file or directory",
    "cpp_sources:3:21: error: 'emty_like' is not a member of 'torch'",
    "cpp_sources:3:12: error: 'class kevin_torch::Tensor' has no member named 'numell'",
    'cuda_sources(9): error: class "kevin_torch::Tensor" has no member "numell"',
    "cpp_sources:5:3: error: 'y' was not declared in this scope",
    "cpp_sources:5:3: error: expected ';' before 'return'",
    'cuda_sources(12): error: identifier "blockIDx" is undefined',
    "cpp_sources:5:3: error: 'TORCH_CHEK' was not declared in this scope",
    "cpp_sources:4:1: error: no matching function for call to 'mine(int, float)'",
]


@pytest.mark.parametrize("log", BLAMED)
def test_what_torch_has_and_ours_lack_is_blamed_on_ours(log: str, includes: tuple[Path, ...]) -> None:
    assert missing_from_thin([log], includes, HEADERS)


@pytest.mark.parametrize("log", HONEST)
def test_an_honest_error_is_not_blamed_on_ours(log: str, includes: tuple[Path, ...]) -> None:
    assert missing_from_thin([log], includes, HEADERS) is None


def test_only_the_first_error_of_a_unit_counts(includes: tuple[Path, ...]) -> None:
    assert missing_from_thin([HONEST[4] + "\n" + BLAMED[1]], includes, HEADERS) is None
    assert missing_from_thin([BLAMED[1] + "\n" + HONEST[4]], includes, HEADERS)


def test_one_unit_with_an_honest_error_is_enough_to_stay_thin(includes: tuple[Path, ...]) -> None:
    assert missing_from_thin([BLAMED[1], HONEST[4]], includes, HEADERS) is None
    assert missing_from_thin([], includes, HEADERS) is None


def test_people_see_errors_without_noise_colours_and_our_names() -> None:
    log = (
        "[1/2] g++ ...\nFAILED: kevin.0.cpp.o\n/tmp/x/cpp_sources:3:5: warning: unused\n"
        "\x1b[31m/tmp/x/cpp_sources:4:1: error: no 'kevin_torch::Tensor'\x1b[0m\n"
        "    4 | foo\n      | ^\x07\nninja: build stopped\n"
    )
    text = relevant(log, ["/tmp/x"])
    assert text.splitlines() == ["cpp_sources:4:1: error: no 'at::Tensor'", "    4 | foo", "      | ^"]


def test_a_flood_of_errors_is_capped() -> None:
    assert len(relevant("a:1:1: error: x\n" * 10_000)) < 7000
    assert len(error_blocks("a:1:1: error: x\n  note\na:2:1: error: y\n")) == 2


def test_standard_headers_follow_the_names_in_use() -> None:
    assert headers_for("std::sort(a); std :: cout << x; std::vector<int> v;") == ("algorithm", "iostream")
    assert headers_for("sort(a)") == ()
    assert is_missed("cpp_sources:1:1: error: 'gcd' is not a member of 'std'")
    assert not is_missed("cpp_sources:1:1: error: 'gcd' is not a member of 'torch'")
