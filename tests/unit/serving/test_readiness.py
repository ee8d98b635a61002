"""What is missing for a server, in words, with how to get it; and vLLM's command line."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_model

from kevin_cli.errors import UsageError
from kevin_cli.policies.serving.command_line import Serving, arguments, environment, printed
from kevin_cli.policies.serving.gpus import Gpu, Gpus, Split, read_indices, split_gpus
from kevin_cli.policies.serving.memory_plan import GIB, make_plan
from kevin_cli.policies.serving.model_files import QWEN_32B, ModelFiles, find, full_name
from kevin_cli.policies.serving.readiness import Facts, Vllm, shortages

H200 = Gpu(index=0, name="NVIDIA H200", total_bytes=140 * GIB, free_bytes=139 * GIB)
WHOLE = ModelFiles(name="cognition-ai/Kevin-32B", folder=Path("/weights"), shape=QWEN_32B)


def facts(**changes: object) -> Facts:
    """A machine on which everything is there."""
    plan = make_plan(
        QWEN_32B, num_gpus=1, total_bytes=H200.total_bytes, free_bytes=H200.free_bytes, shares_with_kernels=True
    )
    fine = Facts(
        vllm=Vllm(python="/env/bin/python", version="0.33.0", cuda=(13, 0)),
        files=WHOLE,
        gpus=Gpus(gpus=(H200,), driver="580.65", cuda=(13, 0)),
        plan=plan,
        disk_free_bytes=500 * GIB,
        disk=Path("/home/me/.cache"),
    )
    return replace(fine, **changes)  # type: ignore[arg-type]


def test_nothing_is_missing_on_a_machine_that_has_everything() -> None:
    assert shortages(facts()) == []


ABSENT = ModelFiles(name="cognition-ai/Kevin-32B", shape=QWEN_32B, download_bytes=4 * QWEN_32B.num_params)
SMALL = make_plan(QWEN_32B, num_gpus=1, total_bytes=80 * GIB, free_bytes=79 * GIB, shares_with_kernels=True)

SHORTAGES = [
    ("no vLLM", {"vllm": Vllm(python="/env/bin/python")}, "vLLM is not installed for /env/bin/python", "[vllm]"),
    ("no GPU", {"gpus": Gpus(), "plan": None}, "no NVIDIA GPU", "nvidia-smi"),
    (
        "an old driver",
        {"gpus": Gpus(gpus=(H200,), driver="535.1", cuda=(12, 2))},
        "the driver 535.1 runs CUDA 12.2, vLLM needs 13.0",
        "update the NVIDIA driver",
    ),
    ("no weights", {"files": ABSENT}, "(122.1 GiB) are not on this machine", "hf download cognition-ai/Kevin-32B"),
    ("half of the weights", {"files": replace(WHOLE, missing=("a", "b"))}, "/weights lacks a, b", "hf download"),
    ("no disk", {"files": ABSENT, "disk_free_bytes": 50 * GIB}, "50.0 GiB free, the weights take 122.1", "HF_HOME"),
    ("no memory", {"plan": SMALL}, "weights take 61.0 GiB and one completion of 30,720 tokens takes 7.5", "fp8"),
]


@pytest.mark.parametrize(("changes", "what", "fix"), [row[1:] for row in SHORTAGES], ids=[row[0] for row in SHORTAGES])
def test_what_is_missing_is_said_with_how_to_get_it(changes: dict[str, object], what: str, fix: str) -> None:
    found = shortages(facts(**changes))
    assert any(what in one.what and fix in one.fix for one in found), found


def test_a_shorter_context_is_offered_where_it_would_fit() -> None:
    (one,) = shortages(facts(plan=SMALL))
    assert f"--max-model-len {SMALL.longest}" in one.fix


# --- GPUs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "model", "kernels", "expected"),
    [
        (1, (), (), Split(model=(0,), kernels=(0,))),
        (2, (), (), Split(model=(1,), kernels=(0,))),
        (4, (), (), Split(model=(1, 2, 3), kernels=(0,))),
        (4, (0, 1), (), Split(model=(0, 1), kernels=(2,))),
        (4, (), (3,), Split(model=(0, 1, 2), kernels=(3,))),
        (2, (0, 1), (), Split(model=(0, 1), kernels=(0,))),
        (0, (), (), Split(model=(), kernels=())),
    ],
)
def test_gpus_are_split_so_that_kernels_have_one_to_themselves(
    count: int, model: tuple[int, ...], kernels: tuple[int, ...], expected: Split
) -> None:
    assert split_gpus(count, model, kernels) == expected


def test_sharing_is_seen() -> None:
    assert Split(model=(0,), kernels=(0,)).shares
    assert not Split(model=(1,), kernels=(0,)).shares


@pytest.mark.parametrize(("text", "words"), [("a", "not a list"), ("0;1", "not a list"), ("2", "this machine has 2")])
def test_gpus_that_are_not_there_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_indices(text, "--model-gpus", 2)


# --- files -------------------------------------------------------------------------------------------


def test_names_are_completed() -> None:
    assert full_name("kevin") == "cognition-ai/Kevin-32B"
    assert full_name("QwQ") == "Qwen/QwQ-32B"
    assert full_name("someone/model") == "someone/model"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model.make(tmp_path_factory.mktemp("tiny") / "tiny")


def test_a_directory_tells_its_size(directory: Path) -> None:
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    found = find(str(directory))
    assert found.is_whole
    assert found.shape is not None
    assert found.shape.num_params == sum(p.numel() for p in model.parameters() if p.dtype is torch.float32)
    assert (found.shape.num_layers, found.shape.num_kv_heads, found.shape.head_dim) == (2, 2, 32)
    assert found.context_tokens == tiny_model.CONTEXT_TOKENS


def test_a_file_that_was_cut_off_is_missing(directory: Path, tmp_path: Path) -> None:
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert find(str(tmp_path)).missing == ("model.safetensors",)


def test_a_shard_that_the_index_names_and_is_not_there_is_missing(directory: Path, tmp_path: Path) -> None:
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert find(str(tmp_path)).missing == ("model-00002-of-00002.safetensors",)


def test_an_adapter_names_its_base(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(directory), "r": 24}))
    found = find(str(tmp_path))
    assert (found.folder, found.adapter, found.adapter_rank) == (directory, tmp_path, 24)


def test_a_quantised_model_says_so(directory: Path, tmp_path: Path) -> None:
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    config = json.loads((directory / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "awq"}}))
    assert find(str(tmp_path)).quantization == "awq"


# --- the command -------------------------------------------------------------------------------------

KEVIN = Serving(
    model="/weights",
    served_name="Kevin-32B",
    max_model_len=30720,
    tensor_parallel=2,
    utilization=0.88,
    gpus=(1, 2),
    is_offline=True,
)


def test_the_command_has_what_kevin_needs() -> None:
    found = " ".join(arguments(KEVIN))
    for part in (
        "serve /weights",
        "--host 127.0.0.1",
        "--served-model-name Kevin-32B",
        "--dtype bfloat16",
        "--max-model-len 30720",
        "--enable-prefix-caching",
        "--tensor-parallel-size 2",
        "--gpu-memory-utilization 0.88",
        "--enable-sleep-mode",
    ):
        assert part in found


def test_the_environment_lets_it_be_paused_and_keeps_it_local() -> None:
    found = environment(KEVIN)
    assert found["VLLM_SERVER_DEV_MODE"] == "1"
    assert found["VLLM_HOST_IP"] == "127.0.0.1"
    assert found["CUDA_VISIBLE_DEVICES"] == "1,2"
    assert found["HF_HUB_OFFLINE"] == "1"


def test_an_adapter_is_served_under_the_name_that_is_asked_for() -> None:
    found = arguments(replace(KEVIN, adapter=Path("/adapter"), adapter_rank=24))
    assert "--lora-modules Kevin-32B=/adapter" in " ".join(found)
    assert found[found.index("--max-lora-rank") + 1] == "32"
    assert "--served-model-name" not in found, "or the base would answer to the adapter's name"


def test_without_a_gpu_nothing_is_said_about_one() -> None:
    found = arguments(replace(KEVIN, utilization=None, tensor_parallel=1, dtype="float32"))
    assert "--enforce-eager" in found
    assert not {"--enable-sleep-mode", "--gpu-memory-utilization"} & set(found)


def test_the_printed_command_is_one_that_a_shell_takes() -> None:
    line = printed(["vllm"], replace(KEVIN, model="/my weights", extra=("--seed", "1")))
    assert "'/my weights'" in line
    assert shlex.split(line)[-2:] == ["--seed", "1"]
