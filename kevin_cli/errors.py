"""The exceptions a user can see: what went wrong, what to do next, and the exit code.

A candidate's failure is never one of these (it is a `Verdict`); a mistake in the input, a machine that
lacks something and a fault of our own are. Commands print `message` and `hint` and leave with
`exit_code`; nothing else turns an exception into text.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit codes are an interface; the README lists them."""

    OK = 0
    NOT_BETTER = 1
    USAGE = 2
    MACHINE = 3
    INTERNAL = 4
    NOTHING_TO_DO = 5
    LIMIT_REACHED = 6
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    """As the shell says of a program that was ended by SIGPIPE: whoever read the output is gone."""


class KevinError(Exception):
    """Something the user should read. `hint` says what to do next."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(KevinError):
    """The command line or the user's file is wrong: a missing file or class, inputs that don't fit."""

    exit_code = ExitCode.USAGE


class TaskError(UsageError):
    """The user's module does not load, does not run, or does not fit its inputs."""


class MachineError(KevinError):
    """This machine can't: no compiler, no GPU, an interpreter without torch."""

    exit_code = ExitCode.MACHINE


class NothingToOptimizeError(KevinError):
    """The target has no compute, or no room below the roofline."""

    exit_code = ExitCode.NOTHING_TO_DO


class InfraError(KevinError):
    """A fault of ours: a process of the harness died, a frame did not arrive, the disk is full."""

    exit_code = ExitCode.INTERNAL


class EndpointError(KevinError):
    """A model endpoint refuses, times out or answers rubbish, before any turn could be made."""

    exit_code = ExitCode.USAGE


class StoppedError(KevinError):
    """Ctrl-C before there was anything to keep; a search that has begun ends in a result instead."""

    exit_code = ExitCode.INTERRUPTED


def fault_text(fault: Mapping[str, Any]) -> str:
    """What pydantic says of one value, as a part of a sentence of ours: without the names of its own classes."""
    text = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return text[:1].lower() + text[1:]
