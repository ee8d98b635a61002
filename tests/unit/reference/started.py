"""A real reference program over a real channel, and a worker played by the test: it writes answers itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from kevin_cli.harness.arena import Arena, open_arena, view
from kevin_cli.harness.wire import LARGE_CAP_BYTES, Channel, Kind
from kevin_cli.records import to_plain
from kevin_cli.types import Target

LAUNCH = Path(__file__).resolve().parents[3] / "kevin_cli" / "harness" / "launch.py"
MODULES = Path(__file__).parent / "modules"
MAX_BYTES = 4 << 20

Answer = Callable[[list[torch.Tensor]], list[torch.Tensor]]


class Fault(Exception):  # noqa: N818
    """A FAULT frame."""

    def __init__(self, fault: dict[str, Any]) -> None:
        super().__init__(fault["message"])
        self.where = fault["where"]
        self.hint = fault["hint"]


class Started:
    """The program with one described task and its arenas open."""

    def __init__(self, env: dict[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        argv = [sys.executable, "-u", str(LAUNCH), "reference", str(theirs.fileno())]
        self.process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], env=os.environ | (env or {}))
        theirs.close()
        self.channel = Channel(ours)
        assert self.channel.recv(timeout_s=60).kind is Kind.READY

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        return self._exchange(op, arguments)[0]

    def _exchange(self, op: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
        sequence = self.channel.request({"op": op, **arguments})
        frame = self.channel.recv(timeout_s=120, cap_bytes=LARGE_CAP_BYTES)
        assert frame.sequence == sequence
        if frame.kind is Kind.FAULT:
            raise Fault(frame.json())
        assert frame.kind is Kind.ANSWER
        return frame.json(), frame.fds

    def describe(self, module: str) -> dict[str, Any]:
        return self.describe_file(MODULES / f"{module}.py")

    def describe_file(self, path: Path) -> dict[str, Any]:
        target = Target(path=str(path), class_name="Model", python=sys.executable)
        self.description = self.ask("describe", target=to_plain(target), device="cpu")
        return self.description

    def open(self, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
        self.layout, fds = self._exchange("open", {"max_bytes": max_bytes})
        parts = ("inputs", "outputs", "weights")
        self.arenas = {
            part: open_arena(fd, self.layout[part]["num_bytes"], "cpu", writable=True)
            for part, fd in zip(parts, fds, strict=True)
        }
        return self.layout

    def inputs(self, slot: int) -> list[torch.Tensor]:
        return self._views("inputs", self.description["contract"]["inputs"], slot)

    def outputs(self, slot: int) -> list[torch.Tensor]:
        return self._views("outputs", self.description["output_specs"], slot)

    def _views(self, part: str, specs: Sequence[dict[str, Any]], slot: int) -> list[torch.Tensor]:
        offsets = self.layout[part]["tensors"]
        return [view(self.arenas[part], places[slot], spec) for places, spec in zip(offsets, specs, strict=True)]

    def arena(self, part: str) -> Arena:
        return self.arenas[part]

    def weights(self) -> dict[str, torch.Tensor]:
        specs = {spec["name"]: {**spec, "strides": None} for spec in self.description["parameters"]}
        offsets = self.layout["weights"]["tensors"]
        return {name: view(self.arenas["weights"], offset, specs[name]) for name, offset in offsets.items()}

    def reply(self, slot: int, answer: Answer) -> None:
        """What a worker does: compute from the inputs in the slot, copy the results into the output slot."""
        for place, result in zip(self.outputs(slot), answer(self.inputs(slot)), strict=True):
            place.copy_(result)

    def judged(self, answer: Answer, *, stratum: str = "user", slot: int = 0, seed: int = 11) -> dict[str, Any]:
        """Draw, answer as a worker would, check."""
        self.ask("draw", slot=slot, seed=seed, stratum=stratum)
        self.reply(slot, answer)
        return self.ask("check", slot=slot)

    def stop(self) -> None:
        self.channel.request({"op": "quit"})
        self.process.wait(30)
        self.channel.close()
