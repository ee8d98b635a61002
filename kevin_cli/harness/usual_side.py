"""The usual judge (`usual/main.py`) as the controller sees it: contained, asked one candidate at a time.

Nothing depends on what it says. When a candidate takes it down it is started again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kevin_cli.errors import InfraError
from kevin_cli.harness.program import Launch, Program
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.harness.steady import steady_environment
from kevin_cli.harness.wire import ChannelClosed, DeadlineExceeded, Kind, ProtocolError
from kevin_cli.types import DeviceKind

READY_TIMEOUT_S = 120.0
GRACE_S = 10.0
"""Beyond its own limit for one candidate."""
BROKEN = (ChannelClosed, DeadlineExceeded, ProtocolError)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualAnswer:
    """What it said, or `lost` when a candidate took it down."""

    answer: Literal["passed", "failed", "lost"]
    detail: str
    speedup: float = 0.0


class UsualSide:
    """Started when it is first asked. `readable`: folders of tasks and of builds."""

    def __init__(
        self, python: str, device: DeviceKind, home: Path, readable: tuple[Path, ...], timeout_s: float
    ) -> None:
        self._python = python
        self._device = device
        self._home = home
        self._readable = readable
        self._timeout_s = timeout_s
        self._program: Program | None = None

    async def ask(self, op: Literal["judge", "witness"], body: Mapping[str, Any]) -> UsualAnswer:
        program = await self._running()
        asked = {**body, "op": op, "device": self._device.value, "timeout_s": self._timeout_s}
        try:
            reply = await program.ask(asked, timeout_s=self._timeout_s + GRACE_S)
            if reply.frame.kind is not Kind.ANSWER:
                raise ProtocolError(f"{reply.frame.kind.name} instead of ANSWER")
            return _read(reply.frame.payload)
        except BROKEN as error:
            await self.close()
            return UsualAnswer(answer="lost", detail=str(error) or type(error).__name__)

    async def close(self) -> None:
        if self._program is not None:
            await self._program.stop()
            self._program = None

    async def _running(self) -> Program:
        """Raises `InfraError` when it does not start."""
        if self._program is None or not self._program.is_running:
            await self.close()
            self._program = await Program.start(self._launch())
            try:
                await self._program.ready(timeout_s=READY_TIMEOUT_S)
            except BROKEN as error:
                await self._program.stop()
                raise InfraError(f"the usual judge did not start: {await self._program.printed()}") from error
        return self._program

    def _launch(self) -> Launch:
        sandbox = Sandbox.find().around(readable=interpreter_folders(self._python))
        env = steady_environment(sandbox.environment(self._home, gpu=self._device is DeviceKind.CUDA), bound=False)
        if self._device is DeviceKind.CPU:
            env["CUDA_VISIBLE_DEVICES"] = ""
        wrap = sandbox.wrap(readable=self._readable, gpu=self._device is DeviceKind.CUDA)
        return Launch(program="usual", python=self._python, env=env, cwd=self._home, wrap=wrap)


def _read(payload: bytes) -> UsualAnswer:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        told = json.loads(payload)
        passed = bool(told["passed"])
        return UsualAnswer(
            answer="passed" if passed else "failed", detail=str(told["detail"])[:200], speedup=float(told["speedup"])
        )
    raise ProtocolError("an answer that is none")
