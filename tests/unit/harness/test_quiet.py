"""Builds run together, a measurement runs alone, and programs of ours that still compute are waited for."""

import asyncio
import subprocess
import sys

from kevin_cli.harness.quiet import Quiet, until_idle
from kevin_cli.types import DeviceKind


async def hold(gate, name, seen, seconds=0.02):
    async with gate:
        seen.append(f"{name} begins")
        await asyncio.sleep(seconds)
        seen.append(f"{name} ends")


def test_builds_overlap_each_other_but_never_a_measurement():
    async def go():
        quiet, seen = Quiet(DeviceKind.CPU), []
        async with asyncio.TaskGroup() as group:
            group.create_task(hold(quiet.building(), "a", seen))
            group.create_task(hold(quiet.building(), "b", seen))
            await asyncio.sleep(0.005)
            group.create_task(hold(quiet.measuring(), "m", seen))
            await asyncio.sleep(0.005)
            group.create_task(hold(quiet.building(), "c", seen))
        return seen

    seen = asyncio.run(go())
    assert seen[:2] == ["a begins", "b begins"]
    assert seen[4:6] == ["m begins", "m ends"]
    assert seen[6:] == ["c begins", "c ends"]


def test_on_cuda_a_build_does_not_wait_for_a_measurement():
    async def go():
        quiet, seen = Quiet(DeviceKind.CUDA), []
        async with asyncio.TaskGroup() as group:
            group.create_task(hold(quiet.measuring(), "m", seen))
            await asyncio.sleep(0.005)
            group.create_task(hold(quiet.building(), "b", seen, 0.001))
        return seen

    assert asyncio.run(go()) == ["m begins", "b begins", "b ends", "m ends"]


def test_a_program_of_ours_that_computes_is_noticed_and_one_that_sleeps_is_not():
    def idle_beside(code):
        with subprocess.Popen([sys.executable, "-c", code]) as child:
            try:
                asyncio.run(asyncio.sleep(0.3))
                return asyncio.run(until_idle(0.3))
            finally:
                child.kill()

    assert idle_beside("import time; time.sleep(60)")
    assert not idle_beside("while True: pass")
