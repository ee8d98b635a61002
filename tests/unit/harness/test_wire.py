"""Frames keep their form, and whatever breaks it is found out by the receiver."""

import os
import socket
import struct
import threading
import time

import pytest

from kevin_cli.harness.wire import (
    HEADER,
    MAGIC,
    Channel,
    ChannelClosed,
    DeadlineExceeded,
    Kind,
    ParameterEntry,
    ProtocolError,
    pack_parameters,
    unpack_parameters,
)


@pytest.fixture
def ends():
    left, right = socket.socketpair()
    with left, right:
        yield Channel(left), right


def test_a_frame_arrives_with_its_descriptors(ends):
    channel, other = ends
    readable, writable = os.pipe()
    Channel(other).send(Kind.ANSWER, b'{"a": 1}', sequence=7, fds=[writable])
    frame = channel.recv(timeout_s=5)
    assert (frame.kind, frame.sequence, frame.json()) == (Kind.ANSWER, 7, {"a": 1})
    os.write(frame.fds[0], b"through")
    assert os.read(readable, 7) == b"through"
    for fd in (readable, writable, *frame.fds):
        os.close(fd)


@pytest.mark.parametrize(
    "header",
    [
        HEADER.pack(b"EVIL", Kind.DONE, 0, 0, 0),
        HEADER.pack(MAGIC, 99, 0, 0, 0),
        HEADER.pack(MAGIC, Kind.DONE, 1, 0, 0),
        HEADER.pack(MAGIC, Kind.DONE, 0, 0, 2**63),
    ],
)
def test_a_frame_that_breaks_the_form_is_a_protocol_error(ends, header):
    channel, other = ends
    other.sendall(header)
    with pytest.raises(ProtocolError):
        channel.recv(timeout_s=5)


def test_a_frame_that_never_ends_meets_the_deadline(ends):
    channel, other = ends
    other.sendall(HEADER.pack(MAGIC, Kind.DONE, 0, 0, 100) + b"only a part")
    with pytest.raises(DeadlineExceeded):
        channel.recv(timeout_s=0.2)


def test_a_closed_channel_is_noticed_at_once(ends):
    channel, other = ends
    other.close()
    with pytest.raises(ChannelClosed):
        channel.recv(timeout_s=5)


def test_abort_ends_a_read_in_another_thread(ends):
    channel, _ = ends
    raised = []

    def read():
        try:
            channel.recv()
        except ChannelClosed as error:
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(0.05)
    channel.abort()
    thread.join(5)
    assert not thread.is_alive()
    assert len(raised) == 1


ENTRIES = (
    ParameterEntry("norm.weight", "float32", (4, 5), "ab" * 32),
    ParameterEntry("größe", "bfloat16", (), "00" * 32),
)


def test_parameters_survive_the_wire():
    assert unpack_parameters(pack_parameters(ENTRIES)) == ENTRIES


@pytest.mark.parametrize("cut", [1, 10, 40, 47])
def test_a_list_of_parameters_that_is_cut_short_is_a_protocol_error(cut):
    payload = pack_parameters(ENTRIES[:1])
    with pytest.raises(ProtocolError):
        unpack_parameters(payload[:cut])


def test_a_name_that_is_not_text_is_a_protocol_error():
    payload = struct.pack("<HBB32s", 2, 0, 0, b"") + b"\xff\xfe"
    with pytest.raises(ProtocolError):
        unpack_parameters(payload)


def test_spinning_ends_at_a_frame_or_after_its_time_and_keeps_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    one, other = Channel(ours), Channel(theirs)
    other.send(Kind.DONE, b"x")
    assert one.recv(timeout_s=1.0, spin_s=0.5).payload == b"x"
    with pytest.raises(DeadlineExceeded):
        one.recv(timeout_s=0.01, spin_s=0.005)
    theirs.close()
    with pytest.raises(ChannelClosed):
        one.recv(timeout_s=1.0, spin_s=0.5)
