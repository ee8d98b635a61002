"""The dry run's arithmetic, against numbers worked by hand, and what it refuses."""

from __future__ import annotations

import pytest

from kevin_cli.errors import UsageError
from trainer.config import Config
from trainer.configured import load, preset_names
from trainer.plan import Amount, adapter_parameters, check, make, micro_batches, refusals


def value(amounts: tuple[Amount, ...], what: str) -> float:
    return next(amount.value for amount in amounts if amount.what == what)


def changed(*overrides: str) -> Config:
    return load("kevin-32b", overrides)


@pytest.mark.parametrize("name", preset_names())
def test_no_preset_is_refused(name: str) -> None:
    assert refusals(load(name)) == []


def test_the_published_batch_is_512_rows_and_80_steps() -> None:
    batch = make(load("kevin-32b")).batch
    assert value(batch, "rows of a batch") == 512
    assert value(batch, "rows of a rank") == 128
    assert value(batch, "optimizer steps") == 80


def test_zero3_without_offload_holds_16_bytes_a_parameter_over_all_shards() -> None:
    config = changed("shard.num_processes=8", "shard.offload_optimizer=false")
    memory = make(config).memory
    states = sum(value(memory, what) for what in ("weights", "gradients", "optimizer"))
    assert states == pytest.approx(16 * 32.8 / 8)


def test_ddp_holds_everything_on_every_gpu_and_is_refused_at_32b() -> None:
    found = refusals(changed("shard.kind=ddp", "shard.offload_optimizer=false"))
    assert len(found) == 1
    assert found[0].startswith("training, in all comes to 5")


def test_adapters_of_rank_8_on_smollm2_have_as_many_parameters_as_peft_makes() -> None:
    assert adapter_parameters(load("h200-mini")) == 2_442_240


def test_parts_share_the_rows_and_epochs_repeat_them() -> None:
    assert micro_batches(changed("learn.reuse=epochs")) == 128
    assert micro_batches(changed("learn.reuse=parts")) == 64


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["tasks.per_batch=6"], "not a multiple of 64 (turns × trajectories)"),
        (["learn.micro_batch=3"], "not a multiple of learn.micro_batch"),
        (["rollout.num_trajectories=1", "rollout.num_turns=1"], "a group of one sample teaches nothing"),
        (["learn.advantage=leave_one_out", "rollout.num_trajectories=1"], "there is only one"),
        (["rollout.engine=scripted"], "needs rollout.script"),
        (["judge.device=cpu"], "is a CUDA protocol"),
        (["shard.num_processes=1"], "does not go with shard.num_processes = 1"),
        (["shard.num_nodes=3"], "do not spread evenly"),
        (["judge.device=cpu", "rollout.style=general-cpu", "shard.kind=fsdp2"], "needs GPUs"),
        (["tasks.source=generated"], "needs tasks.num_generated"),
        (["tasks.source=generated", "tasks.num_generated=4"], "do not fill a batch of 8"),
        (["rollout.extended_completion_tokens=1000"], "is less than"),
        (["layout.gpu_memory_gb=80.0", "layout.tensor_parallel=1"], "generation, in all comes to"),
        (["layout.is_shared=true"], "share GPUs and need"),
    ],
)
def test_what_can_not_work_is_refused(overrides: list[str], reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(changed(*overrides))
    assert any(reason in line for line in refusals(changed(*overrides))), refusals(changed(*overrides))
    assert caught.value.hint
