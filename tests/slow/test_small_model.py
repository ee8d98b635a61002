"""A real language model goes through the loop: in process, and behind a real OpenAI-compatible server.

SmolLM2-135M writes text and hardly ever a program, so what is held here is order: every turn recorded,
real token counts, feedback in the next prompt, no exception. The judge is a scripted one; the same over
the whole command line is tested with the command line. The first run makes the model directory (one to
two minutes, packages from the index) and keeps it in the temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from make_small_model import make

from kevin_cli.policies.choose import choose
from kevin_cli.policies.sharing import Around
from kevin_cli.refine.journal import RecordedRun, load_run, open_run
from kevin_cli.refine.prompt import renderer
from kevin_cli.refine.run import optimize
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import (
    Candidate,
    Contract,
    DeviceKind,
    Judge,
    Outcome,
    StageWatch,
    Style,
    Target,
    Task,
    TensorSpec,
    Tree,
    Verdict,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KEPT = Path(tempfile.gettempdir()) / "kevin-small-model"
SERVING = ("fastapi", "uvicorn", "requests", "python-multipart")
START_TIMEOUT_S = 300.0
NUM_TURNS = 2

_X = TensorSpec(shape=(64, 256), dtype="float32", strides=(256, 1))
_TENSOR = Tree(kind="tensor", index=0)
TASK = Task(
    name="double",
    digest="0" * 64,
    target=Target(path="/double.py", class_name="Model", python=sys.executable),
    source="import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple", items=(_TENSOR,)),
    outputs=_TENSOR,
    output_specs=(_X,),
    parameters=(),
    contract=Contract(device=DeviceKind.CPU, inputs=(_X,)),
    graph=None,
)


class StrictJudge:
    """Whatever compiles in a small model's dreams: it does not here."""

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        return Verdict(outcome=Outcome.BUILD_FAILED, detail="the compiler failed", log="error: expected ';'")


@pytest.fixture(scope="module")
def model() -> Path:
    directory = Path(os.environ.get("KEVIN_SMALL_MODEL") or KEPT / "smollm2")
    if not (directory / "tokenizer.json").is_file():
        directory.parent.mkdir(parents=True, exist_ok=True)
        make(directory)
    return directory


@pytest.fixture(scope="module")
def endpoint(model: Path) -> Iterator[str]:
    """`transformers serve` on a free port, with its web packages in a folder of their own."""
    packages = KEPT / "serving"
    if not (packages / "fastapi").is_dir():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages)]
        subprocess.run([*install, "--no-deps", "accelerate"], check=True)
        subprocess.run([*install, *SERVING], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve", str(model)]
    environment = os.environ | {"PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1"}
    log = (KEPT / "serve.log").open("w")
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/v1/models", server)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def wait_until_ready(url: str, server: subprocess.Popen[bytes]) -> None:
    """Any answer will do: its list of models fails on a machine without a Hugging Face cache."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise AssertionError(f"the server did not start; see {KEPT / 'serve.log'}")


def recorded(model: str | None, endpoint: str | None, root: Path) -> RecordedRun:
    settings = RunSettings(style=Style.GENERAL_CPU, num_turns=NUM_TURNS, max_tokens=24, turn_timeout_s=600, seed=1)
    judge: Judge = StrictJudge()

    async def story() -> Path:
        choice = await choose(model, endpoint, device=DeviceKind.CPU)
        policy = await choice.open(renderer(choice.style, 4096), False, Around())
        journal = open_run(TASK, policy=policy.name, settings=settings, root=root)
        try:
            await optimize(TASK, policy, judge, settings, journal)
        finally:
            await policy.close()
        return journal.folder

    return load_run(asyncio.run(story()))


def assert_orderly(run: RecordedRun) -> None:
    (trajectory,) = run.trajectories
    assert run.ending is not None
    assert run.ending.outcome == "no_gain"
    assert [turn.index for turn in trajectory.turns] == list(range(NUM_TURNS))
    for turn in trajectory.turns:
        assert turn.completion.finish_reason in ("stop", "length"), turn.completion.error
        assert turn.completion.text.strip()
        assert turn.verdict.outcome in (Outcome.NO_CODE, Outcome.BUILD_FAILED)
        assert (turn.completion.num_completion_tokens or 0) > 0
    assert trajectory.turns[1].completion.messages[-1].content == trajectory.turns[0].feedback


def test_a_small_model_in_process_makes_an_orderly_run(model: Path, tmp_path: Path) -> None:
    run = recorded(str(model), None, tmp_path)
    assert_orderly(run)
    for turn in run.trajectories[0].turns:
        assert turn.completion.token_ids is not None
        assert turn.completion.logprobs is not None
        assert len(turn.completion.token_ids) == len(turn.completion.logprobs)
        assert all(value <= 0 for value in turn.completion.logprobs)


def test_a_small_model_behind_a_real_server_makes_an_orderly_run(model: Path, endpoint: str, tmp_path: Path) -> None:
    run = recorded(str(model), endpoint, tmp_path)
    assert_orderly(run)
    assert run.header.policy.startswith(f"http {model}")
