"""A model in process and the judge on one GPU: no token is made while a kernel is timed, and the log says so.

The model is random, made on the spot, of the shape of SmolLM2-135M: its tokens are real work and no kernels.
So each trajectory lets it write, and then proposes a kernel that is known to be right, which the judge has to build,
verify and time while other trajectories write. Prints the log; `python tests/gpu/test_sharing.py [cpu]` runs it alone,
on a CPU with a model of two layers. `two_gpus_model.py` has the model on a GPU of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kevin_cli import tasks
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.policies.intervals import Interval, overlap_s, total_s
from kevin_cli.policies.sharing import Around, Sharing
from kevin_cli.policies.transformers import TransformersPolicy
from kevin_cli.refine.run import optimize
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Completion, DeviceKind, Limits, Message, Style, Target, Trajectory, Verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "small_models"))

NUM_TRAJECTORIES, NUM_TURNS = 4, 3
NUM_TOKENS = {DeviceKind.CUDA: 512, DeviceKind.CPU: 200}
MODULE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x * 2 + 1)


def get_inputs():
    return [torch.randn(%s)]
"""
SHAPE = {DeviceKind.CUDA: "4096, 4096", DeviceKind.CPU: "256, 256"}
CUDA = '''import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

__global__ void relu_kernel(const float* x, float* y, int n) {  // MARK
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i] * 2.0f + 1.0f, 0.0f);
}

torch::Tensor relu(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    relu_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
declaration = "torch::Tensor relu(torch::Tensor x);"
built = load_inline(name="relu_MARK", cpp_sources=declaration, cuda_sources=source, functions=["relu"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.relu(x)
'''
CPU = '''import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

torch::Tensor relu(torch::Tensor x) {  // MARK
    auto y = torch::empty_like(x);
    const float* a = x.data_ptr<float>();
    float* b = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); ++i) b[i] = a[i] * 2 + 1 > 0 ? a[i] * 2 + 1 : 0;
    return y;
}
"""
built = load_inline(name="relu_MARK", cpp_sources=source, functions=["relu"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.relu(x)
'''


def make_model(folder: Path, device: DeviceKind) -> Path:
    import tiny_model
    import torch
    import transformers

    tiny_model.make(folder)
    if device is DeviceKind.CUDA:
        config = transformers.AutoConfig.from_pretrained(folder)
        config.hidden_size, config.intermediate_size, config.num_hidden_layers = 576, 1536, 30
        config.num_attention_heads, config.num_key_value_heads, config.head_dim = 9, 3, 64
        config.layer_types = ["full_attention"] * 30
        transformers.Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


class Dictated:
    """Lets the model write, and then says what it is told to say."""

    def __init__(self, inner: TransformersPolicy, program: str) -> None:
        self.name = inner.name
        self._inner, self._program = inner, program

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        written = await self._inner.propose(trajectory, limits)
        assert written.finish_reason in ("stop", "length"), written.error
        mark = f"t{trajectory.index}n{len(trajectory.turns)}"
        return replace(written, text=f"```python\n{self._program.replace('MARK', mark)}```", finish_reason="stop")

    async def close(self) -> None:
        await self._inner.close()


def render(trajectory: Trajectory, counter: object) -> tuple[Message, ...]:
    return (Message("user", f"trajectory {trajectory.index}, turn {len(trajectory.turns)}"),)


async def share(device: DeviceKind, folder: Path, place: str = "") -> tuple[tuple[Interval, ...], list[Verdict], int]:
    """The log, the verdicts, and how many tokens were written. `place`: where the model has a device of its own."""
    (folder / "m.py").write_text(MODULE % SHAPE[device])
    sharing = Sharing()
    settings = JudgeSettings(device=device, cache=folder / "cache", pause=sharing.measuring)
    async with LocalJudge(settings) as judge:
        target = Target(path=str(folder / "m.py"), class_name="Model", python=sys.executable)
        task = tasks.lower(target, await judge.describe(target))
        await judge.open_task(task)
        path = make_model(folder / "model", device)
        inner = TransformersPolicy.load(path, render, device=place or device.value, around=Around(sharing=sharing))
        if not place:
            sharing.attach(inner)
        policy = Dictated(inner, CUDA if device is DeviceKind.CUDA else CPU)
        chosen = RunSettings(
            style=Style.GENERAL,
            num_turns=NUM_TURNS,
            num_trajectories=NUM_TRAJECTORIES,
            max_tokens=NUM_TOKENS[device],
            max_finals=1,
        )
        result = await optimize(task, policy, judge, chosen)
        await policy.close()
    turns = [turn for trajectory in result.trajectories for turn in trajectory.turns]
    written = sum(turn.completion.num_completion_tokens or 0 for turn in turns)
    return sharing.log, [turn.verdict for turn in turns], written


def alternations(log: tuple[Interval, ...]) -> int:
    """How often the device changed hands."""
    kinds = [one.kind for one in sorted(log, key=lambda one: one.start_s)]
    return sum(before != after for before, after in itertools.pairwise(kinds))


def run(device: DeviceKind) -> None:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log, verdicts, written = asyncio.run(share(device, Path(folder)))
    outcomes = [verdict.outcome.value for verdict in verdicts]
    first = min(one.start_s for one in log)
    for one in sorted(log, key=lambda one: one.start_s):
        print(f"{one.start_s - first:9.3f} … {one.end_s - first:9.3f} s  {one.kind}")
    print(f"outcomes: {outcomes}")
    print(f"{written} tokens in {total_s(log, 'generating'):.2f} s, measured for {total_s(log, 'timing'):.2f} s")
    print(f"overlap: {overlap_s(log):.6f} s; changed hands {alternations(log)} times; {time.monotonic() - start:.0f} s")
    assert outcomes == ["correct"] * (NUM_TRAJECTORIES * NUM_TURNS)
    assert overlap_s(log) == 0.0
    assert alternations(log) >= 2 * NUM_TURNS


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_no_token_is_made_while_a_kernel_is_timed() -> None:
    run(DeviceKind.CUDA)


@pytest.mark.gpu
@pytest.mark.timeout(600)
def test_the_compiled_decode_chooses_what_the_plain_model_would(tmp_path: Path) -> None:
    """At temperature nought; and its log-probabilities are those of a plain forward pass."""
    import torch
    import transformers

    async def story() -> list[Completion]:
        policy = TransformersPolicy.load(path, render, device="cuda")
        limits = Limits(max_tokens=200, temperature=0.0, timeout_s=300, seed=1)
        calls = [policy.propose(Trajectory(task=None, index=index), limits) for index in range(3)]  # type: ignore[arg-type]
        completions = list(await asyncio.gather(*calls))
        await policy.close()
        return completions

    path = make_model(tmp_path / "model", DeviceKind.CUDA)
    completions = asyncio.run(story())
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype="auto").cuda().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    for completion in completions:
        assert completion.token_ids is not None
        chat = [{"role": m.role, "content": m.content} for m in completion.messages]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*prompt, *completion.token_ids]], device="cuda")
        with torch.inference_mode():
            own = model(ids).logits[0, len(prompt) - 1 : -1].float().log_softmax(-1)
        values = own.gather(1, ids[0, len(prompt) :, None])[:, 0]
        assert (own.max(-1).values - values).max() < 0.1, "bfloat16 may swap near ties, nothing else"
        assert list(completion.logprobs or ()) == pytest.approx(values.tolist(), abs=0.1)


if __name__ == "__main__":
    run(DeviceKind.CPU if sys.argv[1:] == ["cpu"] else DeviceKind.CUDA)
    print("OK", hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12])
