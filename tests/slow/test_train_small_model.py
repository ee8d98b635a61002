"""SmolLM2-135M through one batch of training with the real CPU judge: real tokens, real verdicts, one update.

It writes no usable kernel, so what is held is order: every turn recorded, the update made, the checkpoint whole, and
the exported folder a model that loads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from make_small_model import make

from trainer.places import Places, last_checkpoint, read_lines

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KEPT = Path(tempfile.gettempdir()) / "kevin-small-model"
KEVIN_TRAIN = [sys.executable, "-c", "from trainer.app import main; main()"]


@pytest.fixture(scope="module")
def model() -> Path:
    directory = Path(os.environ.get("KEVIN_SMALL_MODEL") or KEPT / "smollm2")
    if not (directory / "tokenizer.json").is_file():
        directory.parent.mkdir(parents=True, exist_ok=True)
        make(directory)
    return directory


def test_a_real_model_takes_a_step_on_real_verdicts(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="needs the extra train")
    given = {
        "model.path": str(model),
        "model.lora_rank": 4,
        "tasks.num_generated": 1,
        "tasks.per_batch": 1,
        "rollout.engine": "transformers",
        "rollout.max_prompt_tokens": 3000,
        "rollout.max_completion_tokens": 48,
        "rollout.turn_timeout_s": 600.0,
    }
    sets = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    out = tmp_path / "run"
    command = [*KEVIN_TRAIN, "run", "--preset", "cpu-smoke", "--out", str(out), "--cache", str(tmp_path / "cache")]
    subprocess.run([*command, *sets], check=True)
    lines = read_lines(out / "log.jsonl")
    assert [line["kind"] for line in lines] == ["batch", "step", "step"]
    assert lines[0]["num_turns"] == 4
    assert sum(lines[0]["outcomes"].values()) == 4
    assert last_checkpoint(Places(out).checkpoints) is not None
    subprocess.run([*KEVIN_TRAIN, "export", str(out), "--out", str(tmp_path / "plain")], check=True)
    import transformers

    exported = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "plain", local_files_only=True)
    assert not hasattr(exported, "peft_config")
    assert exported.num_parameters() == pytest.approx(134.5e6, rel=0.01)
