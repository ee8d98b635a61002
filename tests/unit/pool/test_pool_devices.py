"""One seat a GPU, each in a program of its own that sees that GPU alone; tried on the CPU, where nothing is timed."""

import asyncio
import os
import signal
import sys

import psutil
import pytest
from pool_samples import candidate, task

from kevin_cli.errors import MachineError
from kevin_cli.harness import device
from kevin_cli.harness.device_lock import lock_name
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.pool import LocalSeat
from kevin_cli.harness.pool_devices import DeviceSeat, local_pool
from kevin_cli.types import DeviceKind


def settings(folder, kind=DeviceKind.CPU):
    return JudgeSettings(device=kind, cache=folder)


def seat_programs():
    return [child for child in psutil.Process().children() if "kevin_cli.harness.pool_serve" in child.cmdline()]


def seat_program(number=0):
    return seat_programs()[number]


@pytest.mark.parametrize(("listed", "found"), [("", ("0", "1")), ("3,5", ("3", "5")), ("GPU-ab", ("GPU-ab",))])
def test_every_gpu_that_cuda_may_see_has_a_seat(monkeypatch, tmp_path, listed, found):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    monkeypatch.setattr(device, "gpu_names", lambda: ("a", "b"))
    assert device.visible_gpus() == found
    pool = local_pool(settings(tmp_path, DeviceKind.CUDA))
    assert pool.num_seats == len(found)
    assert isinstance(pool._places[0].seat, DeviceSeat if len(found) > 1 else LocalSeat)


def test_two_gpus_have_two_locks_and_one_gpu_has_one_by_any_name(monkeypatch):
    names = set()
    for listed in ("GPU-a,GPU-b", "GPU-b", "GPU-a"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
        names.add(lock_name(DeviceKind.CUDA))
    assert names == {"cuda-GPU-a", "cuda-GPU-b"}


def test_a_seat_sees_its_gpu_alone_and_says_what_is_wrong_with_a_task(tmp_path):
    async def story():
        async with local_pool(settings(tmp_path), devices=["7", "8"]) as pool:
            with pytest.raises(MachineError, match="has no torch"):
                await pool.open_task(task("t"))
            return seat_program().environ()["CUDA_VISIBLE_DEVICES"]

    assert asyncio.run(story()) == "7"
    assert seat_programs() == []


def test_a_seat_that_is_killed_is_started_again_and_asked_again(tmp_path):
    async def story():
        seat = DeviceSeat(settings(tmp_path), "0")
        pids = []
        for _ in range(2):
            with pytest.raises(MachineError, match="has no torch"):
                await seat.judge(task("t"), candidate("x"))
            pids.append(seat_program().pid)
            os.kill(pids[-1], signal.SIGKILL)
        await seat.close()
        return pids

    first, second = asyncio.run(story())
    assert first != second


def test_without_ray_it_says_what_to_install(monkeypatch, tmp_path):
    from kevin_cli.harness.pool_ray import ray_pool

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MachineError, match="--pool ray needs the package ray") as caught:
        ray_pool(settings(tmp_path))
    assert "kevin-cli[ray]" in caught.value.hint
