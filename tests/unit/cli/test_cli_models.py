"""`kevin serve` and `kevin models` as users start them, on a machine without vLLM and without weights."""

from __future__ import annotations

import json
from pathlib import Path

from cli_samples import Kevin

MODULE = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.ones(8, 8)]
"""
NOTHING = {"KEVIN_VLLM_PYTHON": "/bin/false", "HF_HOME": "/nonexistent/cache", "OPENAI_API_KEY": ""}


def test_what_a_server_needs_is_said_at_once(kevin: Kevin) -> None:
    done = kevin("serve", **NOTHING)
    assert done.returncode == 3
    assert "vLLM is not installed for /bin/false" in done.stderr
    assert "the weights of cognition-ai/Kevin-32B (122.1 GiB) are not on this machine" in done.stderr
    assert "hf download cognition-ai/Kevin-32B" in done.stderr
    assert done.stdout == ""


def test_the_command_alone_goes_to_stdout(kevin: Kevin) -> None:
    done = kevin("serve", "qwq", "--max-model-len", "16384", "--print", "--", "--seed", "7", **NOTHING)
    assert done.returncode == 0
    (line,) = done.stdout.splitlines()
    assert "serve Qwen/QwQ-32B --host 127.0.0.1 --port 8000 --served-model-name QwQ-32B" in line
    assert "--max-model-len 16384" in line
    assert line.endswith("--seed 7")
    assert "missing: vLLM is not installed" in done.stderr


def test_the_same_as_json(kevin: Kevin) -> None:
    found = json.loads(kevin("serve", "--print", "--json", **NOTHING).stdout)
    assert found["model"] == "cognition-ai/Kevin-32B"
    assert found["missing"][0]["what"].startswith("vLLM is not installed")
    assert found["plan"] is None


def test_models_are_listed(kevin: Kevin) -> None:
    found = json.loads(kevin("models", "--no-ask", "--json", **NOTHING).stdout)
    names = [one["name"] for one in found["models"]]
    assert names[0] == "embedded"
    assert {"cognition-ai/Kevin-32B", "Qwen/QwQ-32B"} <= set(names)
    assert found["vllm"]["version"] == ""


def test_a_configured_model_that_is_not_there_fails(kevin: Kevin) -> None:
    done = kevin("models", "--endpoint", "http://127.0.0.1:9/v1", **NOTHING)
    assert done.returncode == 1
    assert "unreachable" in done.stdout


def test_kevin_without_weights_ends_before_anything_is_measured(kevin: Kevin, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    done = kevin("optimize", "m.py", "--device", "cpu", "--model", "kevin", **NOTHING)
    assert done.returncode == 3
    assert "measuring" not in done.stderr
    assert "hf download" in done.stderr


def test_a_limit_of_money_needs_a_price(kevin: Kevin, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE)
    done = kevin("optimize", "m.py", "--device", "cpu", "--max-cost", "1")
    assert done.returncode == 2
    assert "--price" in done.stderr
