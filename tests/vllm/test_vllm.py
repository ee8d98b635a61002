"""A real vLLM, on the CPU, with a small real model, through the whole of kevin: served, in process, killed, paused.

SmolLM2-135M hardly ever writes a program, so what is held here is order: every turn recorded, real token counts, one
request for equal questions, nothing lost when the server dies, nothing computed while something is measured.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from make_small_model import make

from kevin_cli.policies.endpoint import check
from kevin_cli.policies.http import HttpPolicy
from kevin_cli.policies.intervals import DEVICE_LOG, overlap_s, read, total_s
from kevin_cli.policies.serving.running import Running, list_running
from kevin_cli.policies.sharing import Around, Sharing
from kevin_cli.refine.journal import RecordedRun, load_run
from kevin_cli.types import Completion, Contract, DeviceKind, Limits, Message, Target, Task, Trajectory, Tree

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

KEPT = Path(os.environ.get("KEVIN_SMALL_MODEL") or Path(__file__).parents[2] / "build" / "smollm2")
START_TIMEOUT_S = 900.0
KEVIN = [sys.executable, "-c", "from kevin_cli.app import main; main()"]
MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1)


def get_inputs():
    return [torch.randn(256, 256)]
"""
TASK = Task(
    name="t",
    digest="",
    target=Target(path="", class_name="Model", python=""),
    source="",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple"),
    outputs=Tree(kind="tuple"),
    output_specs=(),
    parameters=(),
    contract=Contract(device=DeviceKind.CPU, inputs=()),
    graph=None,
)


@pytest.fixture(scope="session")
def model() -> Path:
    if not (KEPT / "tokenizer.json").is_file():
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        make(KEPT)
    return KEPT


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "m.py").write_text(MODULE)
    return folder


def environment(home: Path, **extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KEVIN_", "OPENAI_"))}
    ours = {"KEVIN_CACHE": str(home / "cache"), "KEVIN_VLLM_PYTHON": sys.executable, "COLUMNS": "200", "NO_COLOR": "1"}
    return {**kept, **ours, "KEVIN_COMPLETION_TOKENS": "48", **extra}


def start_serving(model: Path, home: Path) -> Running:
    """`kevin serve` in the background; returns when it has said its URL."""
    output = (home / "serve.log").open("a")
    command = [*KEVIN, "serve", str(model), "--port", "8731"]
    process = subprocess.Popen(
        command, cwd=home, env=environment(home), stdout=subprocess.PIPE, stderr=output, text=True
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:"), (home / "serve.log").read_text()
    (running,) = [one for one in list_running(home / "cache") if one.endpoint == url]
    SERVING[running.pid] = process
    return running


SERVING: dict[int, subprocess.Popen[str]] = {}


@pytest.fixture(scope="module")
def served(model: Path, home: Path) -> Iterator[Running]:
    running = start_serving(model, home)
    yield running
    for process in SERVING.values():
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    assert list_running(home / "cache") == []


def optimize(home: Path, *arguments: str, **extra: str) -> subprocess.Popen[str]:
    command = [*KEVIN, "optimize", "m.py", "--device", "cpu", "--timeout", "600", *arguments]
    return subprocess.Popen(
        command, cwd=home, env=environment(home, **extra), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, RecordedRun]:
    output, _ = process.communicate(timeout=1200)
    assert process.returncode in (0, 1), output
    found = re.search(r"the run: (.+)", output)
    assert found, output
    return output, load_run(found[1].strip())


def assert_orderly(run: RecordedRun, num_trajectories: int, num_turns: int) -> None:
    assert len(run.trajectories) == num_trajectories
    for trajectory in run.trajectories:
        assert [turn.index for turn in trajectory.turns] == list(range(num_turns))
        for turn in trajectory.turns:
            completion = turn.completion
            assert completion.finish_reason in ("stop", "length"), completion.error
            assert (completion.num_completion_tokens or 0) > 0
        asked = trajectory.turns[-1].completion.messages[-1].content
        assert asked == trajectory.turns[-2].feedback


def test_trajectories_go_through_a_server_and_share_their_first_request(served: Running, home: Path) -> None:
    arguments = ("--endpoint", served.endpoint, "--trajectories", "3", "--turns", "2")
    output, run = finish(optimize(home, *arguments))
    print(output)
    assert_orderly(run, 3, 2)
    firsts = [trajectory.turns[0].completion for trajectory in run.trajectories]
    assert len({completion.text for completion in firsts}) == 3, "n choices with one seed are different"
    assert sorted((c.num_prompt_tokens or 0) > 0 for c in firsts) == [False, False, True], "the prompt was read once"
    log = read(run.folder / DEVICE_LOG)
    assert total_s(log, "generating") > 0
    assert overlap_s(log) == 0.0
    assert "never at the same time" in output


def test_a_running_server_is_found_by_the_models_name(served: Running, model: Path, home: Path) -> None:
    done = subprocess.run(
        [*KEVIN, "models", "--model", f"serve:{model}"], cwd=home, env=environment(home), capture_output=True, text=True
    )
    print(done.stdout)
    assert re.search(rf"^ready +{model.name}", done.stdout, re.M)
    output, run = finish(optimize(home, "--model", f"serve:{model}", "--trajectories", "1", "--turns", "2"))
    assert "which kevin serve started" in output
    assert_orderly(run, 1, 2)


async def ask(
    endpoint: str, count: int, max_tokens: int, around: Around
) -> tuple[HttpPolicy, list[asyncio.Task[Completion]]]:
    """So many different questions at once."""

    def render(trajectory: Trajectory, counter: object) -> tuple[Message, ...]:
        return (Message("user", f"Write a story about number {trajectory.index}."),)

    policy = HttpPolicy(await check(endpoint), render, around=around)
    limits = Limits(max_tokens=max_tokens, temperature=0.9, timeout_s=600, seed=3)
    calls = [policy.propose(Trajectory(task=TASK, index=index), limits) for index in range(count)]
    return policy, [asyncio.create_task(call) for call in calls]


def num_generated(endpoint: str) -> float:
    """vLLM's own counter of tokens."""
    with urllib.request.urlopen(endpoint.removesuffix("/v1") + "/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:generation_tokens_total"))


def test_a_paused_server_writes_nothing_and_loses_nothing(served: Running) -> None:
    async def story() -> tuple[list[tuple[float, float]], list[Completion], Sharing]:
        sharing = Sharing()
        policy, asking = await ask(served.endpoint, 2, 150, Around(sharing=sharing))
        sharing.attach(policy)
        counts = []
        for _ in range(3):
            await asyncio.sleep(1.5)
            async with sharing.measuring():
                before = await asyncio.to_thread(num_generated, served.endpoint)
                await asyncio.sleep(2.0)
                counts.append((before, await asyncio.to_thread(num_generated, served.endpoint)))
        completions = list(await asyncio.gather(*asking))
        await policy.close()
        return counts, completions, sharing

    counts, completions, sharing = asyncio.run(story())
    print("generated tokens before and after each measurement:", counts)
    assert all(before == after for before, after in counts), "not one token was made while something was measured"
    assert [c.num_completion_tokens for c in completions] == [150, 150] or all(
        c.finish_reason == "stop" for c in completions if c.num_completion_tokens != 150
    )
    assert overlap_s(sharing.log) == 0.0
    assert total_s(sharing.log, "timing") >= 6.0


def test_tokens_and_logprobs_come_over_http(served: Running) -> None:
    async def story() -> Completion:
        policy, (asking,) = await ask(served.endpoint, 1, 20, Around(logprobs=True))
        completion = await asking
        await policy.close()
        return completion

    completion = asyncio.run(story())
    assert completion.token_ids is not None
    assert completion.logprobs is not None
    assert len(completion.token_ids) == len(completion.logprobs) == completion.num_completion_tokens
    assert all(value <= 0 for value in completion.logprobs)


def test_the_models_own_tokenizer_counts(served: Running, model: Path) -> None:
    import transformers

    from kevin_cli.policies.token_count import ServerCount

    text = "__global__ void add(const float* x)"
    counter = ServerCount(asyncio.run(check(served.endpoint))).counter
    assert counter is not None
    expected = transformers.AutoTokenizer.from_pretrained(model)(text, add_special_tokens=False)["input_ids"]
    assert counter(text) == len(expected)


def test_a_server_that_is_killed_and_started_again_loses_no_turn(served: Running, model: Path, home: Path) -> None:
    before = set((home / ".kevin" / "runs").glob("*"))
    arguments = ("--endpoint", served.endpoint, "--trajectories", "2", "--turns", "3")
    process = optimize(home, *arguments)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        new = set((home / ".kevin" / "runs").glob("*")) - before
        if any((run / "turns.jsonl").is_file() for run in new):
            break
        time.sleep(0.1)
    os.killpg(served.pid, signal.SIGKILL)
    assert SERVING[served.pid].wait(60) == 3, "kevin serve says that its server died"
    again = start_serving(model, home)
    assert again.endpoint == served.endpoint
    output, run = finish(process)
    print(output)
    assert_orderly(run, 2, 3)
    assert "trying again" in output


def test_a_server_of_its_own_lives_as_long_as_the_run(model: Path, home: Path) -> None:
    for process in SERVING.values():
        process.send_signal(signal.SIGINT)
        process.wait(60)
    output, run = finish(optimize(home, "--model", f"serve:{model}", "--trajectories", "2", "--turns", "2"))
    print(output)
    assert "through a vLLM server for this run" in output
    assert_orderly(run, 2, 2)
    assert list_running(home / "cache") == []


def test_vllm_in_process_batches_trajectories(model: Path, home: Path) -> None:
    output, run = finish(optimize(home, "--model", f"vllm:{model}", "--trajectories", "3", "--turns", "2"))
    print(output)
    assert run.header.policy == f"vllm {model.name}, in process"
    assert_orderly(run, 3, 2)
    for trajectory in run.trajectories:
        for turn in trajectory.turns:
            assert turn.completion.token_ids is not None
            assert turn.completion.logprobs is not None
            assert len(turn.completion.token_ids) == len(turn.completion.logprobs)
    assert overlap_s(read(run.folder / DEVICE_LOG)) == 0.0
