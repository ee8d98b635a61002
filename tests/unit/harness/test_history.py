"""What is concluded from a candidate's history: whose computation it is, and whether it loses memory."""

import pytest

from kevin_cli.errors import InfraError
from kevin_cli.harness import examine
from kevin_cli.harness.history import NO_KERNEL, lost_bytes, why_not_own
from kevin_cli.harness.wire import ProtocolError, pack_watched, unpack_watched
from kevin_cli.types import DeviceKind, Watched

MIB = 1 << 20


def test_a_kernel_that_does_all_the_work_is_its_own():
    assert why_not_own(Watched(num_own=1, num_torch=0), DeviceKind.CPU) == ""
    assert why_not_own(Watched(num_own=1, num_torch=3, own_ns=95, other_ns=5), DeviceKind.CUDA) == ""


@pytest.mark.parametrize(
    ("watched", "device", "words"),
    [
        (None, DeviceKind.CPU, "could not be watched"),
        (Watched(num_own=0, num_torch=2), DeviceKind.CPU, NO_KERNEL),
        (Watched(num_own=1, num_torch=2, top=("mm 1",)), DeviceKind.CPU, "mm 1"),
        (Watched(num_own=1, num_torch=0, own_ns=80, other_ns=20), DeviceKind.CUDA, "80%"),
    ],
)
def test_work_that_torch_does_is_not_its_own(watched, device, words):
    assert words in why_not_own(watched, device)


@pytest.mark.parametrize(
    ("held", "lost"),
    [
        ([10 * MIB, 20 * MIB, 30 * MIB], 10 * MIB // 100),
        ([10 * MIB, 90 * MIB, 90 * MIB], 0),
        ([10 * MIB, 11 * MIB, 12 * MIB], 0),
        ([0, 0, 0], 0),
        ([], 0),
    ],
)
def test_memory_is_lost_when_every_part_of_the_soak_takes_more(held, lost):
    assert lost_bytes(held, num_calls=100, output_bytes=1000) == lost


def test_what_a_watched_call_did_travels_in_numbers():
    watched = Watched(num_own=3, num_torch=2, own_ns=5, other_ns=7, top=("mm 1, add 1",))
    assert unpack_watched(pack_watched(watched)) == watched
    with pytest.raises(ProtocolError):
        unpack_watched(b"short")
    with pytest.raises(ProtocolError):
        unpack_watched(bytes(10_000))


def test_a_full_disk_is_a_fault_of_ours(tmp_path, monkeypatch):
    examine.check_room(tmp_path)
    monkeypatch.setattr(examine, "MIN_FREE_BYTES", 1 << 62)
    with pytest.raises(InfraError, match="too few to build in"):
        examine.check_room(tmp_path)
