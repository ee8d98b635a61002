# ruff: noqa: N802 - the methods of a driver that the test plays have the names of NVML
"""What disturbs a round is seen: threads that wait for a core, heat, a low clock, another program on the GPU."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pynvml
import pytest

from kevin_cli.harness import watch
from kevin_cli.harness.watch import CpuWatch, CudaWatch, joined, waited_ns
from kevin_cli.types import Conditions

BURN = "import time\nend = time.time() + 30\nwhile time.time() < end: pass"


@pytest.fixture
def burning():
    """Start so many processes on one core; they end with the test."""
    started = []

    def start(count):
        core = min(os.sched_getaffinity(0))
        for _ in range(count):
            argv = ["taskset", "-c", str(core), sys.executable, "-c", BURN]
            started.append(subprocess.Popen(argv))
        return [process.pid for process in started]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_threads_that_share_a_core_wait_for_it(burning):
    pids = burning(2)
    before = waited_ns(pids)
    deadline = time.monotonic() + 20
    while waited_ns(pids) < before + 100_000_000 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert waited_ns(pids) >= before + 100_000_000


def test_a_process_that_is_gone_has_waited_for_nothing():
    assert waited_ns([2**22 + 1]) == 0


@pytest.mark.parametrize(("waited", "why"), [(0.0, ""), (0.1, ""), (0.2, "another program used the cores")])
def test_a_round_is_disturbed_when_its_blocks_waited_for_more_than_a_small_part(monkeypatch, waited, why):
    total = iter([0, round(waited * 10_000_000)])
    monkeypatch.setattr(watch, "waited_ns", lambda pids: next(total))
    monkeypatch.setattr(watch, "stolen_s", lambda cores: 0.0)
    seen = CpuWatch()
    seen.begin()
    seen.before()
    seen.after(10_000_000)
    assert seen.disturbed() == why


def test_time_that_the_hypervisor_took_disturbs(monkeypatch):
    stolen = iter([5.0, 5.5])
    monkeypatch.setattr(watch, "stolen_s", lambda cores: next(stolen))
    seen = CpuWatch()
    seen.begin()
    assert seen.disturbed() == "the hypervisor gave the cores to others"


# --- a GPU that the test plays ---------------------------------------------------------------------


class Driver:
    """NVML with one device: `states` are (clock, reasons) after each block, `busy` the pids that computed."""

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM = pynvml.NVML_CLOCK_SM

    def __init__(self, states, busy=(), holders=None):
        self.states, self.busy = list(states), busy
        self.holders = [os.getpid()] if holders is None else holders

    def nvmlDeviceGetClockInfo(self, handle, kind):
        assert kind == self.NVML_CLOCK_SM
        return self.states[0][0]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self.states.pop(0)[1]

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=pid) for pid in self.holders]

    def nvmlDeviceGetProcessUtilization(self, handle, since_us):
        if not self.busy:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return [SimpleNamespace(pid=pid, smUtil=40, timeStamp=since_us + 1) for pid in self.busy]


def rounds(monkeypatch, driver, num_blocks):
    """The verdict on one round of so many blocks, and the watch."""
    monkeypatch.setattr(watch, "_open_nvml", lambda device_id: (driver, "handle"))
    seen = CudaWatch("GPU-1")
    seen.begin()
    for _ in range(num_blocks):
        seen.before()
        seen.after(1)
    return seen.disturbed(), seen


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ([(1980, 0), (1965, 0)], ""),
        ([(1980, 0), (1400, pynvml.nvmlClocksEventReasonSwPowerCap)], ""),
        ([(1980, 0), (1200, 0)], "the device ran at 1200 of 1980 MHz"),
        ([(1980, pynvml.nvmlClocksEventReasonHwThermalSlowdown)], "the device slowed down against heat"),
        ([(1980, pynvml.nvmlClocksEventReasonSwThermalSlowdown)], "the device slowed down against heat"),
        ([(1980, pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown)], "the device was slowed down from outside"),
    ],
)
def test_heat_and_low_clocks_disturb_and_the_power_limit_does_not(monkeypatch, states, why):
    assert rounds(monkeypatch, Driver(states), len(states))[0] == why


def test_a_power_limit_is_told_beside_the_clocks(monkeypatch):
    states = [(1980, 0), (1400, pynvml.nvmlClocksEventReasonSwPowerCap)]
    _, seen = rounds(monkeypatch, Driver(states), 2)
    assert seen.notes() == ("at its power limit after 1 of 2 blocks",)
    assert seen.clocks_mhz() == (1400, 1980)


def test_another_program_that_computes_on_the_device_disturbs(monkeypatch):
    assert rounds(monkeypatch, Driver([(1980, 0)], busy=[os.getpid()]), 1)[0] == ""
    assert rounds(monkeypatch, Driver([(1980, 0)], busy=[1]), 1)[0] == "another program used the device"


def test_another_program_that_only_holds_memory_is_told(monkeypatch):
    why, seen = rounds(monkeypatch, Driver([(1980, 0)], holders=[os.getpid(), 1]), 1)
    assert (why, seen.notes()) == ("", ("1 other process held memory of the device",))


def test_where_no_processes_are_shown_nobody_is_accused_and_that_is_said(monkeypatch):
    why, seen = rounds(monkeypatch, Driver([(1980, 0)], busy=[1], holders=[]), 1)
    assert why == ""
    assert "other programs' use was not seen" in seen.notes()[0]


def test_without_a_driver_it_says_that_nothing_is_known(monkeypatch):
    monkeypatch.setattr(watch, "_open_nvml", lambda device_id: (None, None))
    seen = CudaWatch()
    seen.begin()
    seen.after(1)
    assert seen.disturbed() == ""
    assert seen.clocks_mhz() is None
    assert "NVML does not answer" in seen.notes()[0]


def test_several_processes_are_joined():
    one = Conditions(num_rounds=16, num_repeated=1, why="heat", clocks_mhz=(1400, 1980), notes=("a",))
    other = Conditions(num_rounds=17, num_disturbed=2, why="load", clocks_mhz=(1300, 1900), notes=("a", "b"))
    assert joined([one, other]) == Conditions(
        num_rounds=33, num_repeated=1, num_disturbed=2, why="heat", clocks_mhz=(1300, 1980), notes=("a", "b")
    )
