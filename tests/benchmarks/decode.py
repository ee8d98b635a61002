"""How fast a model in process writes, by batch: `python tests/benchmarks/decode.py [MODEL_DIRECTORY]`.

Without a directory a random model of the shape of SmolLM2-135M is made. Prints tokens a second over all rows, the first
batch of a size (which compiles on a GPU) apart from the second.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "gpu"))

NUM_TOKENS = 256
BATCHES = (1, 16, 64)


async def measure(path: Path, device: str) -> None:
    from kevin_cli.policies.transformers import TransformersPolicy
    from kevin_cli.types import Limits, Message, Trajectory

    def render(trajectory: Trajectory, counter: Any) -> tuple[Message, ...]:
        return (Message("user", "Write a kernel. " * 100),)

    policy = TransformersPolicy.load(path, render, device=device)
    for batch in BATCHES:
        for attempt in ("first", "second"):
            start = time.monotonic()
            calls = []
            for index in range(batch):
                limits = Limits(max_tokens=NUM_TOKENS, temperature=0.9, timeout_s=600, seed=index)
                calls.append(policy.propose(Trajectory(task=None, index=index), limits))  # type: ignore[arg-type]
            done = await asyncio.gather(*calls)
            wall_s = time.monotonic() - start
            count = sum(completion.num_completion_tokens or 0 for completion in done)
            print(f"batch {batch:3d}, {attempt:6s}: {count} tokens in {wall_s:.2f} s, {count / wall_s:.0f} a second")
    await policy.close()


def main() -> None:
    import torch
    from test_sharing import make_model

    from kevin_cli.types import DeviceKind

    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if sys.argv[1:] else make_model(Path(folder) / "model", DeviceKind(device))
        print(f"{torch.cuda.get_device_name() if device == 'cuda' else 'cpu'}, torch {torch.__version__}, {path.name}")
        asyncio.run(measure(path, device))


if __name__ == "__main__":
    main()
