"""Frames between the controller and the programs it starts: fixed header, capped payload, deadline.

    magic "KVN1" | kind u16 | reserved u16 | sequence u32 | length u64 | payload

A channel is one end of a Unix stream socket pair. File descriptors (arenas) travel beside a frame with
SCM_RIGHTS. Nothing that arrives is unpickled, evaluated or taken for a verdict: what a worker sends is
a kind, numbers of fixed size and text with a cap. The receiver decides the cap and the deadline; a
frame that breaks the form raises `ProtocolError`, which the controller books as `tampered`.

Standard library and `types` only: all three programs use this file. Not thread-safe; one call at a time.
"""

from __future__ import annotations

import array
import contextlib
import json
import select
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kevin_cli.types import Watched

MAGIC = b"KVN1"
HEADER = struct.Struct("<4sHHIQ")
MAX_FDS = 8
SMALL_CAP_BYTES = 1 << 20
"""Enough for every frame a worker may send: error text and the list of parameters."""
LARGE_CAP_BYTES = 256 << 20
"""For descriptions that the reference sends (graphs, sources)."""
CLOCKED = frozenset({"run", "replay"})
"""Requests whose answer is waited for by a clock."""
ANSWER_SPIN_S = 0.5
"""How long the controller looks for such an answer before it sleeps: longer than a block of calls lasts."""
REQUEST_SPIN_S = 0.02
"""How long a program looks for the next request after one: the clocked request follows the warm one at once."""
CONSTRUCTION_SEED = 20261130
"""`torch.manual_seed` before a module is constructed, in the reference and in the worker alike, so that
parameters which are initialised in the same way have the same values under whatever names."""


class Kind(IntEnum):
    """What a frame is. Requests are odd, answers even."""

    REQUEST = 1
    """Controller to program: JSON with an `op`."""
    ANSWER = 2
    """Reference to controller: JSON."""
    FAULT = 4
    """Program to controller: JSON or text that says what went wrong."""
    READY = 6
    """Program to controller, once: imported, warm, waiting."""
    LOADED = 8
    """Worker to controller: the candidate's parameters (binary, see `worker/parameters.py`)."""
    DONE = 10
    """Worker to controller: the request is finished; u64 self-reported nanoseconds, or nothing."""
    WATCHED = 12
    """Worker to controller: what one watched call did (`pack_watched`)."""


class ProtocolError(Exception):
    """The other side broke the form: bad magic, wrong kind or sequence, too long."""


class ChannelClosed(Exception):  # noqa: N818
    """The other side is gone."""


class DeadlineExceeded(Exception):  # noqa: N818
    """Nothing whole arrived in time."""


@dataclass(frozen=True, slots=True)
class Frame:
    kind: Kind
    sequence: int
    payload: bytes
    fds: tuple[int, ...] = ()

    def json(self) -> Any:
        """The payload as JSON; `ProtocolError` when it is not."""
        try:
            return json.loads(self.payload)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"frame {self.kind.name} does not hold JSON") from error


class Channel:
    """One end of a socket pair. `recv` closes nothing; the owner does, with `close`."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self.sequence = 0

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        return cls(socket.socket(fileno=fd))

    def send(self, kind: Kind, payload: bytes = b"", *, sequence: int = 0, fds: Sequence[int] = ()) -> None:
        """Send one frame. Raises `ChannelClosed` when the other side is gone."""
        header = HEADER.pack(MAGIC, kind, 0, sequence, len(payload))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._socket.settimeout(None)
            self._socket.sendmsg([header], rights)
            self._socket.sendall(payload)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def recv(self, *, timeout_s: float | None = None, cap_bytes: int = SMALL_CAP_BYTES, spin_s: float = 0.0) -> Frame:
        """Receive one whole frame within `timeout_s` (`None`: for ever).

        For `spin_s` it looks again and again instead of sleeping: a thread that sleeps is woken some
        hundred µs late in a virtual machine, now more, now less.
        """
        if spin_s:
            self._spin(spin_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        header, fds = self._recv_header(deadline)
        magic, kind, reserved, sequence, length = HEADER.unpack(header)
        if magic != MAGIC or reserved != 0 or kind not in Kind._value2member_map_:
            raise ProtocolError("not a frame")
        if length > cap_bytes:
            raise ProtocolError(f"frame of {length} bytes, more than the {cap_bytes} that are allowed")
        return Frame(Kind(kind), sequence, self._recv_exactly(length, deadline), fds)

    def request(self, body: dict[str, Any], *, fds: Sequence[int] = ()) -> int:
        """Send a request; returns its sequence number, which the answer repeats."""
        self.sequence += 1
        self.send(Kind.REQUEST, json.dumps(body).encode(), sequence=self.sequence, fds=fds)
        return self.sequence

    def abort(self) -> None:
        """End a `recv` that another thread is blocked in; the channel is of no use afterwards."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _spin(self, spin_s: float) -> None:
        """Until something can be read, or for so long."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        end = time.monotonic() + spin_s
        while not poll.poll(0) and time.monotonic() < end:
            pass

    def _recv_header(self, deadline: float | None) -> tuple[bytes, tuple[int, ...]]:
        self._arm(deadline)
        try:
            data, rights, _, _ = self._socket.recvmsg(HEADER.size, socket.CMSG_SPACE(MAX_FDS * 4))
        except TimeoutError as error:
            raise DeadlineExceeded from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not data:
            raise ChannelClosed("end of stream")
        fds = array.array("i")
        for level, kind, raw in rights:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
        return data + self._recv_exactly(HEADER.size - len(data), deadline), tuple(fds)

    def _recv_exactly(self, length: int, deadline: float | None) -> bytes:
        data = bytearray(length)
        view, filled = memoryview(data), 0
        while filled < length:
            self._arm(deadline)
            try:
                count = self._socket.recv_into(view[filled:])
            except TimeoutError as error:
                raise DeadlineExceeded from error
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if count == 0:
                raise ChannelClosed("end of stream")
            filled += count
        return bytes(data)

    def _arm(self, deadline: float | None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded
        self._socket.settimeout(left)


# --- the parameters of a candidate -------------------------------------------------------------------

ENTRY = struct.Struct("<HBB32s")
"""Length of the name, length of the type's name, number of dimensions, sha256 of the raw bytes."""


@dataclass(frozen=True, slots=True)
class ParameterEntry:
    """One parameter or buffer as a worker reports it; `sha256` is of its bytes after construction."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str


def pack_parameters(entries: Sequence[ParameterEntry]) -> bytes:
    """The payload of a LOADED frame."""
    return b"".join(_pack_parameter(entry) for entry in entries)


def _pack_parameter(entry: ParameterEntry) -> bytes:
    name, dtype = entry.name.encode(), entry.dtype.encode()
    head = ENTRY.pack(len(name), len(dtype), len(entry.shape), bytes.fromhex(entry.sha256))
    return head + name + dtype + struct.pack(f"<{len(entry.shape)}Q", *entry.shape)


def unpack_parameters(payload: bytes) -> tuple[ParameterEntry, ...]:
    """Read a LOADED payload. Raises `ProtocolError` when it does not end exactly where it should."""
    entries, offset = [], 0
    try:
        while offset < len(payload):
            name_len, dtype_len, ndim, digest = ENTRY.unpack_from(payload, offset)
            offset += ENTRY.size
            name = payload[offset : offset + name_len]
            offset += name_len
            dtype = payload[offset : offset + dtype_len]
            offset += dtype_len
            shape = struct.unpack_from(f"<{ndim}Q", payload, offset)
            offset += 8 * ndim
            entries.append(ParameterEntry(name.decode(), dtype.decode(), shape, digest.hex()))
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError("the list of parameters is malformed") from error
    return tuple(entries)


# --- what a watched call did ---------------------------------------------------------------------------

WATCHED = struct.Struct("<IIQQ")
MAX_TOP_CHARS = 400


def pack_watched(watched: Watched) -> bytes:
    """The payload of a WATCHED frame."""
    numbers = (min(watched.num_own, 2**32 - 1), min(watched.num_torch, 2**32 - 1), watched.own_ns, watched.other_ns)
    return WATCHED.pack(*numbers) + ", ".join(watched.top)[:MAX_TOP_CHARS].encode(errors="replace")


def unpack_watched(payload: bytes) -> Watched:
    """Read a WATCHED payload. Raises `ProtocolError` when it is too short or its text too long."""
    if not WATCHED.size <= len(payload) <= WATCHED.size + 4 * MAX_TOP_CHARS:
        raise ProtocolError("what a watched call did is malformed")
    num_own, num_torch, own_ns, other_ns = WATCHED.unpack_from(payload)
    text = payload[WATCHED.size :].decode(errors="replace")
    return Watched(num_own=num_own, num_torch=num_torch, own_ns=own_ns, other_ns=other_ns, top=(text,) if text else ())
