"""What the reference queued on the device is done when it has answered: nothing in the arenas changes later."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kevin_cli.harness import launch
from kevin_cli.harness.wire import LARGE_CAP_BYTES, Channel, Frame, Kind
from kevin_cli.records import to_plain
from kevin_cli.types import Target

pytestmark = pytest.mark.gpu

EXAMPLE = Path(__file__).parents[2] / "kernels_examples" / "bias_silu_residual" / "reference.py"
"""Large enough that drawing and poisoning take the device longer than an answer takes."""
STRATA = ("user", "normal", "uniform", "heavy", "offset", "small", "large")


class Asked:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-u", launch.__file__, "reference", str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self.channel = Channel(ours)
        assert self.channel.recv(timeout_s=120).kind is Kind.READY

    def __call__(self, op: str, **arguments: object) -> Frame:
        self.channel.request({"op": op, **arguments})
        frame = self.channel.recv(timeout_s=180, cap_bytes=LARGE_CAP_BYTES)
        assert frame.kind is Kind.ANSWER, frame.payload
        return frame


@pytest.mark.parametrize("stratum", STRATA)
def test_nothing_changes_after_the_answer_to_draw(stratum: str) -> None:
    import torch

    from kevin_cli.harness.arena import open_arena

    ask = Asked()
    try:
        ask(
            "describe",
            target=to_plain(Target(path=str(EXAMPLE), class_name="Model", python=sys.executable)),
            device="cuda",
        )
        opened = ask("open", max_bytes=4 << 30)
        layout = opened.json()
        arenas = [
            open_arena(opened.fds[place], layout[side]["num_bytes"], "cuda", writable=False).bytes_tensor
            for place, side in enumerate(("inputs", "outputs"))
        ]
        torch.cuda.synchronize()
        for slot in range(layout["num_slots"]):
            ask("draw", slot=slot, seed=slot, stratum=stratum)
            first = [arena.view(torch.int32).sum(dtype=torch.int64).item() for arena in arenas]
            time.sleep(0.05)
            assert [arena.view(torch.int32).sum(dtype=torch.int64).item() for arena in arenas] == first
    finally:
        ask.process.kill()
        ask.process.wait()
