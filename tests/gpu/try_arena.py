"""Device memory from one process, written by a second, read back by the first: `python tests/gpu/try_arena.py`.

Stand-alone, prints what it measured and `OK`; leaves with 1 when something is wrong. Says also whether
this driver gives a read-only mapping, and what a write through one does. Without a GPU, `--cpu` runs the
same over a memfd.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

HARNESS = Path(__file__).resolve().parents[2] / "kevin_cli" / "harness"
sys.path.insert(0, str(HARNESS.parents[1]))

import torch  # noqa: E402

from kevin_cli.harness.arena import Arena, create_arena, open_arena, view  # noqa: E402
from kevin_cli.harness.wire import Channel, Kind  # noqa: E402

SHAPE = (1024, 1024, 64)
SPEC = {"shape": SHAPE, "dtype": "float32", "strides": None}
NUM_BYTES = 4 * 1024 * 1024 * 64 + 512


def sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def child(fd: int, device: str) -> None:
    """Add one to every element of the first arena into the second; then try to write where it may not."""
    channel = Channel.from_fd(fd)
    frame = channel.recv(timeout_s=120)
    start = time.perf_counter()
    source = open_arena(frame.fds[0], NUM_BYTES, device, writable=False)
    target = open_arena(frame.fds[1], NUM_BYTES, device, writable=True)
    sync(device)
    opened_s = time.perf_counter() - start
    torch.add(view(source, 256, SPEC), 1.0, out=view(target, 256, SPEC))
    sync(device)
    channel.send(Kind.ANSWER, json.dumps({"open_ms": 1e3 * opened_s}).encode())
    channel.recv(timeout_s=120)
    channel.send(Kind.ANSWER, json.dumps({"write": _try_write(source, device)}).encode())


def _try_write(source: Arena, device: str) -> str:
    try:
        view(source, 256, SPEC).zero_()
        sync(device)
    except RuntimeError as error:
        return f"refused: {str(error).splitlines()[0]}"
    return "went through"


def start_child(device: str) -> tuple[Channel, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    argv = [sys.executable, __file__, "--child", str(theirs.fileno()), device]
    process = subprocess.Popen(argv, pass_fds=[theirs.fileno()])
    theirs.close()
    return Channel(ours), process


def main(device: str) -> int:
    start = time.perf_counter()
    source, target = create_arena(NUM_BYTES, device), create_arena(NUM_BYTES, device)
    print(f"created 2 x {NUM_BYTES >> 20} MiB in {1e3 * (time.perf_counter() - start):.1f} ms (with the context)")
    inputs, outputs = view(source, 256, SPEC), view(target, 256, SPEC)
    inputs.normal_()
    outputs.fill_(float("nan"))
    kept = inputs.clone()
    sync(device)
    channel, process = start_child(device)
    channel.request({"op": "add"}, fds=[source.fd, target.fd])
    answer = channel.recv(timeout_s=300).json()
    right = bool(torch.equal(outputs, kept + 1.0))
    print(f"other process: opened in {answer['open_ms']:.1f} ms; what it wrote arrived: {right}")
    channel.request({"op": "write to the inputs"})
    print(f"a write to a read-only mapping {channel.recv(timeout_s=300).json()['write']}")
    untouched = bool(torch.equal(inputs, kept))
    print(f"our side of it is unchanged: {untouched}")
    _time_copies(inputs, outputs, device)
    process.wait()
    print("OK" if right else "WRONG")
    return 0 if right else 1


def _time_copies(inputs: torch.Tensor, outputs: torch.Tensor, device: str) -> None:
    """Arena to arena against tensors of torch's own, in GB/s read plus written."""
    for name, source, target in (
        ("arena", inputs, outputs),
        ("torch", inputs.clone(), torch.empty_like(inputs)),
    ):
        target.copy_(source)
        sync(device)
        start = time.perf_counter()
        for _ in range(10):
            target.copy_(source)
        sync(device)
        seconds = (time.perf_counter() - start) / 10
        print(f"copy in {name} memory: {2e-9 * source.numel() * 4 / seconds:.0f} GB/s")


if __name__ == "__main__":
    if "--child" in sys.argv:
        child(int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main("cpu" if "--cpu" in sys.argv else "cuda"))
