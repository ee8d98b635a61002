"""What was asked for decides the key, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kevin_cli.harness.build.build import architecture_of
from kevin_cli.harness.build.extension import Extension, from_load, from_load_inline
from kevin_cli.harness.build.recipe import Recipe, cxx_flags, has_lean_units, nvcc_flags, units
from kevin_cli.harness.build.toolchain import Toolchain
from kevin_cli.types import DeviceKind

CHAIN = Toolchain(
    python="python", python_version="3.11", python_include=Path("/py"), torch_root=Path("/torch"),
    torch_version="2.13.0+cpu", cxx="g++", cxx_version="12", cxx_standard="c++20",
    nvcc="nvcc", nvcc_version="V13", cuda_root=Path("/cuda"),
)  # fmt: skip


def recipe(extension: Extension, device: DeviceKind = DeviceKind.CPU) -> Recipe:
    return Recipe(extension=extension, toolchain=CHAIN, device=device, architecture="90a" if device == "cuda" else "")


def test_equal_requests_have_equal_keys() -> None:
    assert from_load_inline("a", "x", functions="f").key == from_load_inline("a", ["x"], functions=["f"]).key
    assert from_load_inline("a", "x", verbose=True, build_directory="/b").key == from_load_inline("a", "x").key


@pytest.mark.parametrize(
    "other",
    [
        {"cpp_sources": "y"}, {"cuda_sources": "k"}, {"functions": ["f"]}, {"extra_cflags": ["-O2"]}, {"name": "b"},
        {"extra_cuda_cflags": ["-O2"]}, {"extra_ldflags": ["-lm"]}, {"with_cuda": True}, {"no_implicit_headers": True},
    ],
)  # fmt: skip
def test_every_difference_changes_the_key(other: dict) -> None:
    base = {"name": "a", "cpp_sources": "x"}
    assert from_load_inline(**{**base, **other}).key != from_load_inline(**base).key


def test_a_request_survives_the_wire() -> None:
    extension = from_load_inline("a", ["x", "y"], "k", functions={"f": "doc"}, extra_cflags=["-O3"])
    assert Extension.from_json(json.loads(json.dumps(extension.to_json()))) == extension


@pytest.mark.parametrize(
    "change",
    [{"cflags": [1]}, {"cpp_sources": [["a", 1]]}, {"cpp_sources": 3}, {"more": "x"}, {"cflags": [[["-O3"]]]}],
)
def test_a_malformed_request_is_refused(change: dict) -> None:
    with pytest.raises((TypeError, ValueError)):
        Extension.from_json({**from_load_inline("a", "x").to_json(), **change})


@pytest.mark.parametrize("label", ["../../etc/passwd", "/etc/passwd", "kevin.0.cpp", "a/b", "", ".hidden"])
def test_a_label_that_leaves_the_folder_is_refused(label: str) -> None:
    with pytest.raises(ValueError, match="not a plain file name"):
        Extension(name="a", cpp_sources=((label, "x"),))


def test_load_reads_files_and_the_headers_beside_them(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("A")
    (tmp_path / "b.cu").write_text("B")
    (tmp_path / "c.h").write_text("C")
    extension = from_load("e", [str(tmp_path / "a.cpp"), str(tmp_path / "b.cu")])
    assert extension.cpp_sources == (("a.cpp", "A"),)
    assert extension.cuda_sources == (("b.cu", "B"),)
    assert extension.headers == (("c.h", "C"),)
    assert extension.with_cuda
    assert [unit.file for unit in units(recipe(extension))] == ["kevin.0.cpp", "kevin.0.cu"]


def test_sycl_and_standalone_programs_are_refused() -> None:
    with pytest.raises(ValueError, match="SYCL"):
        from_load_inline("a", "x", sycl_sources="y")
    with pytest.raises(ValueError, match="standalone"):
        from_load("a", [], is_standalone=True)


def test_two_candidates_with_one_name_build_different_modules() -> None:
    one, two = recipe(from_load_inline("fast_matmul", "x")), recipe(from_load_inline("fast_matmul", "y"))
    assert one.module_name != two.module_name


def test_the_candidates_flags_come_last_and_are_split_like_a_shell_would() -> None:
    flags = cxx_flags(recipe(from_load_inline("a", "x", extra_cflags=["-O2 -DX=1", "-ffast-math"])))
    assert flags[-3:] == ["-O2", "-DX=1", "-ffast-math"]
    assert "-march=native" in flags


def test_the_exact_architecture_is_asked_for_unless_the_candidate_names_one() -> None:
    plain = nvcc_flags(recipe(from_load_inline("a", "x", "k"), DeviceKind.CUDA))
    assert "-gencode=arch=compute_90a,code=sm_90a" in plain
    own = nvcc_flags(recipe(from_load_inline("a", "x", "k", extra_cuda_cflags=["-arch=sm_80"]), DeviceKind.CUDA))
    assert not any("90a" in flag for flag in own)
    assert "-march=native" not in cxx_flags(recipe(from_load_inline("a", "x", "k"), DeviceKind.CUDA))
    assert [architecture_of(c) for c in ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0))] == ["75", "80", "89", "90a", "100a"]


def test_torchs_headers_are_not_on_the_thin_path() -> None:
    assert not any("/torch" in flag for flag in cxx_flags(recipe(from_load_inline("a", "x"))))


def test_thin_headers_are_for_the_tested_range_of_torch() -> None:
    from dataclasses import replace

    answers = {v: replace(CHAIN, torch_version=v).has_thin for v in ("2.10.0", "2.11.0+cu130", "2.13.1", "2.14.0", "x")}
    assert answers == {"2.10.0": False, "2.11.0+cu130": True, "2.13.1": True, "2.14.0": False, "x": False}


@pytest.mark.parametrize(
    "source", ["y = x.sum(1);", "x->add_(y);", "at::relu(x)", "PYBIND11_MODULE(a, m) {}", "torch::cat({x})"]
)
def test_a_cuda_unit_that_names_an_operator_gets_them_all(source: str) -> None:
    assert not has_lean_units(recipe(from_load_inline("a", "x", source), DeviceKind.CUDA))


@pytest.mark.parametrize(
    "source", ["x.contiguous(); y.size(0);", "torch::empty_like(x)", "sum(a);", "x.data_ptr<float>()"]
)
def test_a_cuda_unit_without_operators_is_lean(source: str) -> None:
    assert has_lean_units(recipe(from_load_inline("a", "x", source), DeviceKind.CUDA))
    assert not has_lean_units(recipe(from_load_inline("a", source), DeviceKind.CPU))
