"""One device for a model and for timing: they take turns, and it is written down.

`Sharing.measuring` is what the judge holds while it measures. It silences the attached model first and lets it
go on afterwards. How a model is silenced is the model's business: a server is paused through its API, generation
in this process parks between two tokens, any other server on this machine is left to finish what it was asked
and is asked nothing more.

Not promised: anything about programs that kevin does not know of, or about a second user of the same server.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from kevin_cli.policies import intervals
from kevin_cli.policies.intervals import Interval, Kind
from kevin_cli.types import Hear, Roofline

PARK_POLL_S = 0.001


@runtime_checkable
class Pausable(Protocol):
    """A model that can be silenced."""

    async def pause(self) -> None:
        """Returns when the device is idle; nothing computes until `resume`."""
        ...

    async def resume(self) -> None: ...


class Sharing:
    """Who computes on the device: the judge while `measuring` is held, else the attached model."""

    def __init__(self) -> None:
        self._model: Pausable | None = None
        self._log: list[Interval] = []
        self._path: Path | None = None
        self._num_written = 0
        self._lock = threading.Lock()

    def attach(self, model: Pausable) -> None:
        """From here on this model is silenced while something is measured."""
        self._model = model

    def detach(self) -> None:
        self._model = None

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Hold this, with the device, while something is timed or verified there."""
        model = self._model
        if model:
            await model.pause()
        try:
            with self.noting("timing"):
                yield
        finally:
            if model:
                await asyncio.shield(model.resume())

    @contextmanager
    def noting(self, kind: Kind) -> Iterator[None]:
        """Write down how long the body took."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.note(kind, start, time.monotonic())

    def note(self, kind: Kind, start_s: float, end_s: float) -> None:
        """Write down one stretch of work; any thread may."""
        with self._lock:
            self._log.append(Interval(kind=kind, start_s=start_s, end_s=end_s))
            self._flush()

    def log_to(self, path: Path) -> None:
        """Keep the log in a file as well: what is known, and all that comes."""
        with self._lock:
            self._path = path
            self._flush()

    @property
    def log(self) -> tuple[Interval, ...]:
        return tuple(self._log)

    def _flush(self) -> None:
        if self._path is not None:
            intervals.append(self._path, self._log[self._num_written :])
            self._num_written = len(self._log)


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a policy is given besides its prompts."""

    sharing: Sharing | None = None
    """Where it is noted when the model computes: on the device that the judge measures on, or on one of its own."""
    hear: Hear | None = None
    """Told how far a completion has come."""
    notice: Callable[[str], None] | None = None
    """Told in one line why nothing happens."""
    logprobs: bool = False
    """Whether completions shall carry token ids and log-probabilities, where the model can give them."""
    num_trajectories: int = 1
    """How many trajectories of a task ask it in turns."""
    roofline: Roofline | None = None
    """What the device allows for the one task that it is opened for, when that is known."""


class Parking:
    """Where generation in a thread of this process stops between two tokens while something is measured."""

    def __init__(self, note: Callable[[float, float], None] | None = None) -> None:
        self._note = note
        self._changed = threading.Condition()
        self._num_wanting = 0
        self._started_s: float | None = None

    def begin(self) -> None:
        """The generating thread is about to compute; waits while somebody measures."""
        with self._changed:
            self._changed.wait_for(lambda: self._num_wanting == 0)
            self._started_s = time.monotonic()

    def end(self) -> None:
        """The generating thread has nothing on the device any more."""
        with self._changed:
            if self._started_s is not None and self._note:
                self._note(self._started_s, time.monotonic())
            self._started_s = None
            self._changed.notify_all()

    def breathe(self, settle: Callable[[], None]) -> float:
        """Between two tokens: park when somebody wants to measure. `settle` waits for the device.

        Returns the seconds spent parked, so that limits of time can leave them out.
        """
        if self._num_wanting == 0:
            return 0.0
        settle()
        self.end()
        start = time.monotonic()
        self.begin()
        return time.monotonic() - start

    async def pause(self) -> None:
        """Returns when the generating thread is parked or idle. Cancelling it lets generation go on."""
        with self._changed:
            self._num_wanting += 1
        try:
            while self._started_s is not None:
                await asyncio.sleep(PARK_POLL_S)
        except asyncio.CancelledError:
            await self.resume()
            raise

    async def resume(self) -> None:
        with self._changed:
            self._num_wanting -= 1
            self._changed.notify_all()
