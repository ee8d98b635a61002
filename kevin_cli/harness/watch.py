"""What else goes on while something is timed: rounds that another program or the device itself disturbed.

*CPU.* The kernel counts for each thread how long it was ready to run and had no core (schedstat, in ns), and
for each core how long the hypervisor kept it (steal). A round in one of whose blocks threads waited so for more
than a small part of its time says nothing about a candidate.

*CUDA.* NVML says after each block how fast the device ran and why not faster, and after each round which
other processes computed on it. Slowing down against heat, or for a reason outside of the chip, disturbs. The
power limit does not: it is the state in which the device works under such a load, for every side.

Not promised: that everything is seen. In a container NVML may not show the processes of others, a file
system without schedstat shows nothing, and a program that saturates the memory of a CPU takes no core away.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import psutil  # type: ignore[import-untyped]

from kevin_cli.types import Conditions, DeviceKind

MAX_WAIT_SHARE, MAX_WAIT_NS = 0.15, 500_000
"""Of a block's time, and at least, waited for a core by the threads of whoever is timed: a thread that is woken
waits a little anyway."""
MAX_STOLEN_SHARE = 0.04
LEAST_CLOCK_SHARE = 0.75
"""Of the highest clock that was seen so far: below it, and not at the power limit, a block was disturbed."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
NS_PER_S = 1_000_000_000


class Watch(Protocol):
    """Asked around every block of a round."""

    def begin(self) -> None:
        """A round begins."""

    def before(self) -> None:
        """A clocked block begins."""

    def after(self, elapsed_ns: int) -> None:
        """It has just ended."""

    def disturbed(self) -> str:
        """The round is over: why it should not count; empty when nothing was seen."""

    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know beside."""

    def clocks_mhz(self) -> tuple[int, int] | None:
        """Lowest and highest clock of the device after a block."""


def open_watch(device: DeviceKind, device_id: str = "") -> Watch:
    """`device_id`: the GPU as NVML knows it, `GPU-…`; empty for the first one."""
    return CpuWatch() if device is DeviceKind.CPU else CudaWatch(device_id)


class Tally:
    """Rounds by how they went."""

    def __init__(self) -> None:
        self.num_repeated = self.num_disturbed = 0
        self._reasons: Counter[str] = Counter()

    def repeated(self, why: str) -> None:
        self.num_repeated += 1
        self._reasons[why] += 1

    def kept(self, why: str) -> None:
        self.num_disturbed += 1
        self._reasons[why] += 1

    def conditions(self, num_rounds: int, watch: Watch) -> Conditions:
        most = self._reasons.most_common(1)
        return Conditions(
            num_rounds=num_rounds,
            num_repeated=self.num_repeated,
            num_disturbed=self.num_disturbed,
            why=most[0][0] if most else "",
            clocks_mhz=watch.clocks_mhz(),
            notes=watch.notes(),
        )


def joined(conditions: Sequence[Conditions]) -> Conditions:
    """Of several processes that were timed one after another."""
    clocks = [clock for one in conditions for clock in one.clocks_mhz or ()]
    return Conditions(
        num_rounds=sum(one.num_rounds for one in conditions),
        num_repeated=sum(one.num_repeated for one in conditions),
        num_disturbed=sum(one.num_disturbed for one in conditions),
        why=next((one.why for one in conditions if one.why), ""),
        clocks_mhz=(min(clocks), max(clocks)) if clocks else None,
        notes=tuple(dict.fromkeys(note for one in conditions for note in one.notes)),
    )


# --- a CPU -----------------------------------------------------------------------------------------


class CpuWatch:
    """Threads that wait for a core, and cores that the hypervisor gave to others."""

    def __init__(self, parent: int | None = None) -> None:
        self._pids = [child.pid for child in psutil.Process(parent).children(recursive=True)]
        self._cores = sorted(os.sched_getaffinity(0))
        self._before_ns, self._has_waited = 0, False
        self._stolen_s = 0.0
        self._start = 0.0

    def begin(self) -> None:
        self._has_waited = False
        self._stolen_s, self._start = stolen_s(self._cores), time.monotonic()

    def before(self) -> None:
        self._before_ns = waited_ns(self._pids)

    def after(self, elapsed_ns: int) -> None:
        waited = waited_ns(self._pids) - self._before_ns
        self._has_waited |= waited > max(MAX_WAIT_NS, MAX_WAIT_SHARE * elapsed_ns)

    def disturbed(self) -> str:
        if self._has_waited:
            return "another program used the cores"
        wall_s = (time.monotonic() - self._start) * len(self._cores)
        if stolen_s(self._cores) - self._stolen_s > max(2 / TICKS_PER_S, MAX_STOLEN_SHARE * wall_s):
            return "the hypervisor gave the cores to others"
        return ""

    def notes(self) -> tuple[str, ...]:
        return ()

    def clocks_mhz(self) -> tuple[int, int] | None:
        return None


def waited_ns(pids: Sequence[int]) -> int:
    """How long the threads of these processes were ready and had no core, all together, since their start."""
    total = 0
    for pid in pids:
        for place in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(place.read_text().split()[1])
    return total


def stolen_s(cores: Sequence[int]) -> float:
    """Seconds that a hypervisor kept these cores, since the start of the machine."""
    names = {f"cpu{core}" for core in cores}
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        return sum(int(line[8]) for line in lines if line[:1] and line[0] in names) / TICKS_PER_S
    return 0.0


# --- a GPU -----------------------------------------------------------------------------------------

HEAT, OUTSIDE, POWER_CAP = 0x20 | 0x40, 0x08 | 0x80, 0x04
"""NVML's reasons: software and hardware thermal slowdown; hardware slowdown and power brake; the power limit."""


class CudaWatch:
    """Clocks, the reasons for them, and other processes' use of the device, as NVML has them."""

    def __init__(self, device_id: str = "") -> None:
        self._nvml, self._handle = _open_nvml(device_id)
        self._ours = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        holders = set(self._processes())
        self._sees_processes, self._num_others = bool(self._ours & holders), len(holders - self._ours)
        self._clocks: list[int] = []
        self._round: list[tuple[int, int]] = []
        self._num_blocks = self._num_capped = 0
        self._since_us = 0

    def begin(self) -> None:
        self._round, self._since_us = [], time.time_ns() // 1000

    def before(self) -> None:
        """NVML is asked after a block only: nothing should go on before it."""

    def after(self, elapsed_ns: int) -> None:
        seen = self._ask(self._state)
        if seen is not None:
            self._round.append(seen)
            self._clocks.append(seen[0])
            self._num_blocks += 1
            self._num_capped += bool(seen[1] & POWER_CAP)

    def disturbed(self) -> str:
        reasons = 0
        for _, reason in self._round:
            reasons |= reason
        if reasons & HEAT:
            return "the device slowed down against heat"
        if reasons & OUTSIDE:
            return "the device was slowed down from outside"
        slow = [clock for clock, reason in self._round if not reason & POWER_CAP]
        if slow and min(slow) < LEAST_CLOCK_SHARE * max(self._clocks):
            return f"the device ran at {min(slow)} of {max(self._clocks)} MHz"
        return self._foreign()

    def notes(self) -> tuple[str, ...]:
        found = []
        if self._nvml is None:
            found.append("NVML does not answer: nothing is known of clocks and of other programs on the device")
        elif not self._sees_processes:
            found.append("NVML does not show the processes of this machine: other programs' use was not seen")
        elif self._num_others:
            found.append(f"{self._num_others} other process{'es' * (self._num_others > 1)} held memory of the device")
        if self._num_capped:
            found.append(f"at its power limit after {self._num_capped} of {self._num_blocks} blocks")
        return tuple(found)

    def clocks_mhz(self) -> tuple[int, int] | None:
        return (min(self._clocks), max(self._clocks)) if self._clocks else None

    def _foreign(self) -> str:
        """Whether a process that is not ours computed on the device since the round began."""
        if not self._sees_processes:
            return ""
        samples = self._ask(lambda: self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._since_us)) or []
        busy = [sample.pid for sample in samples if sample.smUtil > 0 and sample.timeStamp >= self._since_us]
        return "another program used the device" if set(busy) - self._ours else ""

    def _processes(self) -> list[int]:
        found = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)) or []
        return [process.pid for process in found]

    def _state(self) -> tuple[int, int]:
        """Clock of the multiprocessors in MHz, and the bits of the reasons for it."""
        nvml = self._nvml
        clock = nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM)
        return int(clock), int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle))

    def _ask(self, question: Any) -> Any:
        """`None` for whatever this driver or this container does not tell."""
        if self._nvml is None:
            return None
        with contextlib.suppress(self._nvml.NVMLError):
            return question()
        return None


def _open_nvml(device_id: str) -> tuple[Any, Any]:
    """The library and the device's handle, or `None` twice."""
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        if device_id:
            return pynvml, pynvml.nvmlDeviceGetHandleByUUID(device_id)
        return pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
    return None, None
