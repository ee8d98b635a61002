"""The whole of `kevin optimize` with a real model behind a real server that is killed and started again in the middle.

The server is `transformers serve`, the model is tiny and random: it writes noise, so what is held is order. Every turn
is recorded, tokens are real, the second prompt carries the feedback, nothing is lost, and nothing is generated while
something is measured. This server ignores `n` and sends no end of stream.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_model

from kevin_cli.policies.intervals import DEVICE_LOG, overlap_s, read, total_s
from kevin_cli.refine.journal import load_run

pytestmark = pytest.mark.timeout(600)

BIN = Path(sys.executable).parent
TRANSFORMERS = "from transformers.cli.transformers import main; main()"
START_TIMEOUT_S = 240.0
NUM_TRAJECTORIES, NUM_TURNS = 2, 3
MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1)


def get_inputs():
    return [torch.randn(64, 64)]
"""


class Server:
    """Can be killed and started again at the same port."""

    def __init__(self, model: Path, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._model, self._log = model, log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-c", TRANSFORMERS, "serve", str(self._model), "--device", "cpu"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(self.port)],
                env=os.environ | {"HF_HUB_OFFLINE": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def wait(self) -> None:
        """Any answer will do: its list of models fails on a machine without a Hugging Face cache."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=5).close()
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.2)
                continue
            return
        raise AssertionError(self._log.read_text())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tiny_model.make(tmp_path / "tiny"), tmp_path / "serve.log")
    found.start()
    yield found
    found.kill()


def start_kevin(server: Server, home: Path) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEVIN_", "OPENAI_"))}
    ours = {"KEVIN_CACHE": str(home / "cache"), "KEVIN_COMPLETION_TOKENS": "24", "COLUMNS": "80", "NO_COLOR": "1"}
    (home / "m.py").write_text(MODULE)
    numbers = ["--trajectories", str(NUM_TRAJECTORIES), "--turns", str(NUM_TURNS)]
    where = ["--endpoint", f"http://127.0.0.1:{server.port}/v1", "--model", str(home / "tiny")]
    return subprocess.Popen(
        [str(BIN / "kevin"), "optimize", "m.py", "--device", "cpu", *where, *numbers],
        cwd=home,
        env={**kept, **ours},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_a_turn(home: Path, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not any(path.stat().st_size for path in home.glob(".kevin/runs/*/turns.jsonl")):
        time.sleep(0.02)


def test_a_run_over_a_server_that_dies_and_comes_back_is_orderly(server: Server, tmp_path: Path) -> None:
    server.wait()
    process = start_kevin(server, tmp_path)
    wait_for_a_turn(tmp_path, process)
    server.kill()
    server.start()
    output, _ = process.communicate()
    assert process.returncode == 1, output
    assert "trying again" in output
    assert "never at the same time" in output
    (header,) = tmp_path.glob(".kevin/runs/*/run.json")
    run = load_run(header.parent)
    assert len(run.trajectories) == NUM_TRAJECTORIES
    for trajectory in run.trajectories:
        completions = [turn.completion for turn in trajectory.turns]
        assert [completion.finish_reason for completion in completions] == ["length"] * NUM_TURNS, output
        assert all(completion.num_completion_tokens == 24 for completion in completions)
        for before, after in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            assert after.completion.messages[-1].content == before.feedback
    log = read(run.folder / DEVICE_LOG)
    assert total_s(log, "generating") > 0
    assert overlap_s(log) == 0.0
