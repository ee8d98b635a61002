"""A checkpoint that any number of processes can go on from: whole weights and whole optimizer states, by name.

Sharded checkpoints of DeepSpeed and FSDP2 fit the number of processes that wrote them. With `keep.any_layout` one more
file lies beside them, gathered from all ranks, and a run that is started with another `[shard]` reads that one. Every
rank has to take part in writing and in reading.

Not promised: a model whose optimizer states do not fit one machine's memory; nor the random state of each rank.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kevin_cli.errors import UsageError
from trainer.config import Shard
from trainer.places import write_whole

FILE, LAYOUT = "whole.pt", "layout.json"
MOMENTS = ("exp_avg", "exp_avg_sq")


def note_layout(checkpoint: Path, shard: Shard) -> None:
    write_whole(checkpoint / LAYOUT, json.dumps({"kind": shard.kind, "num_processes": shard.num_processes}))


def is_foreign(checkpoint: Path, shard: Shard) -> bool:
    """Whether a checkpoint was written with another way of sharding. Raises `UsageError` when it can't be read so."""
    if not (checkpoint / LAYOUT).is_file():
        return False
    found = json.loads((checkpoint / LAYOUT).read_text(encoding="utf-8"))
    if found == {"kind": shard.kind, "num_processes": shard.num_processes}:
        return False
    if not (checkpoint / FILE).is_file():
        raise UsageError(
            f"{checkpoint.name} was written by {found['num_processes']} processes ({found['kind']})",
            "go on with the same [shard], or train with keep.any_layout = true",
        )
    return True


def save(checkpoint: Path, model: Any, optimizer: Any, scheduler: Any, *, is_main: bool) -> None:
    """Gather everything that is trained and write it from the main rank."""
    import torch

    states = {name: _state(parameter, optimizer) for name, parameter in _trained(model)}
    if is_main:
        torch.save({"parameters": states, "scheduler": scheduler.state_dict()}, checkpoint / FILE)


def load(checkpoint: Path, model: Any, optimizer: Any, scheduler: Any) -> None:
    """Put everything where this way of sharding has it."""
    import torch

    found = torch.load(checkpoint / FILE, map_location="cpu", weights_only=True)
    if any(hasattr(parameter, "ds_id") for _, parameter in _trained(model)):
        _make_flat_states(optimizer)
    for name, parameter in _trained(model):
        _put(parameter, optimizer, found["parameters"][name])
    scheduler.load_state_dict(found["scheduler"])


def _trained(model: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield name.removeprefix("module."), parameter


def _state(parameter: Any, optimizer: Any) -> dict[str, Any]:
    """`weight`, both moments and the number of steps, on the CPU."""
    if hasattr(parameter, "ds_id"):
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

        moments = {key: safe_get_full_optimizer_state(parameter, key) for key in MOMENTS}
        found = {"weight": safe_get_full_fp32_param(parameter), **moments, "step": _sharded_steps(optimizer)}
    else:
        own = _inner(optimizer).state[parameter]
        found = {"weight": _gathered(parameter), **{key: _gathered(own[key]) for key in MOMENTS}, "step": own["step"]}
    return {key: value.detach().float().cpu().clone() for key, value in found.items()}


def _put(parameter: Any, optimizer: Any, state: dict[str, Any]) -> None:
    import torch

    if hasattr(parameter, "ds_id"):
        import deepspeed
        from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

        with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0):  # what is computed with
            parameter.data.copy_(state["weight"])
        safe_set_full_fp32_param(parameter, state["weight"])
        for key in MOMENTS:
            safe_set_full_optimizer_state(parameter, state[key], key)
        _set_sharded_steps(optimizer, state["step"])
        return
    with torch.no_grad():
        parameter.copy_(_spread(state["weight"], parameter))
    moments = {key: _spread(state[key], parameter) for key in MOMENTS}
    _inner(optimizer).state[parameter] = {"step": state["step"].clone(), **moments}


def _inner(optimizer: Any) -> Any:
    """torch's optimizer inside of accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def _gathered(tensor: Any) -> Any:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _spread(whole: Any, like: Any) -> Any:
    """The part of a whole tensor that belongs here, where and as `like` lies."""
    whole = whole.to(device=like.device, dtype=like.dtype)
    if not hasattr(like, "full_tensor"):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole, like.device_mesh, like.placements)


def _flat_states(optimizer: Any) -> list[Any]:
    """DeepSpeed's flat partitions of this rank, one a parameter group, as torch's optimizer knows them."""
    zero = _inner(optimizer)
    return [zero.optimizer.state[flat] for flat in zero.fp32_partitioned_groups_flat if flat in zero.optimizer.state]


def _make_flat_states(optimizer: Any) -> None:
    """Before the first step there are none to put anything into."""
    import torch

    zero = _inner(optimizer)
    for flat in zero.fp32_partitioned_groups_flat:
        moments = {key: torch.zeros_like(flat.data) for key in MOMENTS}
        zero.optimizer.state[flat] = {"step": torch.zeros(()), **moments}


def _sharded_steps(optimizer: Any) -> Any:
    import torch

    return torch.as_tensor(_flat_states(optimizer)[0]["step"])


def _set_sharded_steps(optimizer: Any, step: Any) -> None:
    import torch

    for state in _flat_states(optimizer):
        state["step"] = step.clone() if torch.is_tensor(state["step"]) else float(step)
