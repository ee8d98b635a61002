"""The reference process as the controller sees it: one method for each thing that it is asked.

It runs the user's module in the user's environment, so it may assert, hang or run out of memory. All of
that is `ReferenceLost`, or `ReferenceFault` when it could still say what was wrong.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import MachineError
from kevin_cli.harness.faults import ReferenceFault, ReferenceLost, last_line
from kevin_cli.harness.program import Launch, Program, Reply, may_spin
from kevin_cli.harness.steady import steady_environment
from kevin_cli.harness.wire import LARGE_CAP_BYTES, ChannelClosed, DeadlineExceeded, Kind, ProtocolError
from kevin_cli.records import to_plain
from kevin_cli.types import DeviceKind, Target

READY_TIMEOUT_S = 120.0
ASK_TIMEOUT_S = 180.0
GRACE_S = 60.0
"""How much longer than its own limit a compilation may take before the process is given up."""


@dataclass(frozen=True, slots=True)
class Arenas:
    """The memory that the reference shares: its layout as JSON, and descriptors of inputs, outputs, weights."""

    layout: dict[str, Any]
    fds: tuple[int, ...]

    @property
    def num_slots(self) -> int:
        return int(self.layout["num_slots"])

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


class ReferenceSide:
    """A running reference process."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @classmethod
    async def start(cls, launch: Launch) -> ReferenceSide:
        """Start it and wait until it has imported torch. Raises `MachineError` when it can't."""
        program = await Program.start(launch)
        try:
            await program.ready(timeout_s=READY_TIMEOUT_S)
        except asyncio.CancelledError:
            await program.stop()
            raise
        except (ChannelClosed, DeadlineExceeded, ProtocolError) as error:
            await program.stop()
            raise _cannot_start(launch.python, await program.printed()) from error
        return cls(program)

    async def stop(self) -> None:
        await self._program.stop()

    @property
    def is_running(self) -> bool:
        return self._program.is_running

    async def describe(self, target: Target, device: str) -> dict[str, Any]:
        return await self._ask("describe", target=to_plain(target), device=device)

    async def open(self, max_bytes: int) -> Arenas:
        reply = await self._exchange({"op": "open", "max_bytes": max_bytes}, ASK_TIMEOUT_S)
        return Arenas(reply.frame.json(), reply.frame.fds)

    async def probe(self) -> dict[str, Any]:
        return await self._ask("probe")

    async def ceilings(self, sizes: Sequence[int], precisions: Sequence[str]) -> dict[str, Any]:
        """What the device can do: rates for working sets of so many bytes, and for products."""
        return await self._ask("ceilings", sizes=list(sizes), precisions=list(precisions))

    async def calibrate(self, seed: int) -> dict[str, Any]:
        return await self._ask("calibrate", seed=seed)

    async def baselines(self, names: Sequence[str], limit_s: float) -> dict[str, Any]:
        """Make these ready, each within `limit_s`: `available` names, and `missing` ones with the reason."""
        body = {"op": "baselines", "names": list(names), "limit_s": limit_s}
        answer: dict[str, Any] = (await self._exchange(body, len(names) * limit_s + GRACE_S)).frame.json()
        return answer

    async def other_tf32(self, *, products: bool, convolutions: bool) -> list[str]:
        """Suffixes of baselines with another setting of TF32 than the user's, where it matters."""
        answer = await self._ask("other_tf32", products=products, convolutions=convolutions)
        return [str(suffix) for suffix in answer["suffixes"]]

    async def capture(self, baseline: str, blocks: Sequence[Sequence[int]]) -> None:
        """A baseline's calls as CUDA graphs. Raises `ReferenceFault` when they can't be captured."""
        await self._ask("capture", baseline=baseline, blocks=[list(slots) for slots in blocks])

    async def replay(self, baseline: str, block: int) -> int:
        """The captured calls of one block; nanoseconds on our clock."""
        return (await self._exchange({"op": "replay", "baseline": baseline, "block": block}, ASK_TIMEOUT_S)).elapsed_ns

    async def construct_hashes(self) -> dict[str, str]:
        """sha256 of each parameter's bytes after construction, by name."""
        answer = await self._ask("construct_hashes")
        return {entry["name"]: entry["sha256"] for entry in answer["parameters"]}

    async def set_weights(self, seed: int | None) -> None:
        await self._ask("set_weights", seed=seed)

    async def draw(self, slot: int, seed: int, stratum: str) -> str:
        """The stratum that was drawn: `user` in the place of one that the module can't be given."""
        return str((await self._ask("draw", slot=slot, seed=seed, stratum=stratum))["stratum"])

    async def export(self, folder: Path, seed: int) -> list[dict[str, Any]]:
        """Write inputs and weights as files into a folder; answers the specs of the weights."""
        return list((await self._ask("export", folder=str(folder), seed=seed))["weights"])

    async def check(self, slot: int) -> dict[str, Any]:
        return await self._ask("check", slot=slot)

    async def fill(self, seed: int, num_slots: int) -> None:
        await self._ask("fill", seed=seed, num_slots=num_slots)

    async def fixes(self, slots: Sequence[int]) -> list[Any]:
        """Secret values that the next run over these slots releases with the clock (`arena.Fixes`)."""
        return list((await self._ask("fix", slots=list(slots)))["fixes"])

    async def mutate(self, slot: int) -> bool:
        """Change one element in place; `False` when no input of this task may be changed so."""
        return bool((await self._ask("mutate", slot=slot))["mutated"])

    async def repeat(self, slot: int, slots: Sequence[int]) -> None:
        """The inputs of `slot` in all of `slots`."""
        await self._ask("repeat", slot=slot, slots=list(slots))

    async def check_repeats(self, slots: Sequence[int]) -> dict[str, Any]:
        return await self._ask("check_repeats", slots=list(slots))

    async def run(self, baseline: str, slots: Sequence[int]) -> int:
        """Nanoseconds on our clock for one baseline over the slots."""
        fixes = await self.fixes(slots)
        body = {"op": "run", "baseline": baseline, "slots": list(slots), "fixes": fixes}
        return (await self._exchange(body, ASK_TIMEOUT_S)).elapsed_ns

    async def mark(self, slots: Sequence[int]) -> None:
        """The outputs in these slots are checked later, by the inputs as they are now."""
        await self._ask("mark", slots=list(slots))

    async def check_block(self, slots: Sequence[int]) -> dict[str, Any]:
        return await self._ask("check_block", slots=list(slots))

    async def compute_something(self) -> None:
        """Whether the device still works for us, after a candidate died on it. Raises `ReferenceLost` when not."""
        try:
            await self._ask("compute_something")
        except ReferenceFault as fault:
            raise ReferenceLost(f"the device does not work any more: {fault}") from fault

    async def used_device_bytes(self) -> int:
        """Memory of the device that is in use by whomever; 0 on the CPU."""
        return int((await self._ask("used_device_bytes"))["used_bytes"])

    async def _ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = (await self._exchange({"op": op, **arguments}, ASK_TIMEOUT_S)).frame.json()
        return answer

    async def _exchange(self, body: dict[str, Any], timeout_s: float) -> Reply:
        try:
            reply = await self._program.ask(body, timeout_s=timeout_s, cap_bytes=LARGE_CAP_BYTES)
        except (ChannelClosed, ProtocolError) as error:
            ending = await self._program.ending()
            printed = last_line(await self._program.printed())
            raise ReferenceLost(f"the reference process {ending} at {body['op']!r}: {printed}") from error
        except DeadlineExceeded as error:
            await self.stop()
            raise ReferenceLost(f"the reference process did not answer {body['op']!r} in {timeout_s:.0f} s") from error
        if reply.frame.kind is Kind.FAULT:
            fault = reply.frame.json()
            raise ReferenceFault(fault["message"], fault.get("hint", ""), fault.get("where", "internal"))
        return reply


def _cannot_start(python: str, printed: str) -> MachineError:
    if "No module named 'torch'" in printed:
        return MachineError(
            f"{python} has no torch", "install torch there, or name the interpreter that has it with --python"
        )
    return MachineError(
        f"{python} cannot run the reference process: {last_line(printed)}", f"try: {python} -c 'import torch'"
    )


def reference_launch(python: str, device: DeviceKind) -> Launch:
    """The user's module runs in the user's own surroundings."""
    env = steady_environment(os.environ, bound=device is DeviceKind.CPU)
    return Launch(program="reference", python=python, env=env, cwd=Path.cwd(), spins=may_spin(device))
