"""The words that tasks, candidates and verdicts share: devices, rules, styles, isolation, outcomes."""

from __future__ import annotations

from enum import StrEnum


class DeviceKind(StrEnum):
    """Where a candidate runs. `cuda` candidates are CUDA C++, `cpu` candidates C++ with OpenMP."""

    CPU = "cpu"
    CUDA = "cuda"


class Rules(StrEnum):
    """What a candidate may use: its own kernels only, or cuBLAS/cuDNN/ATen where they help."""

    KERNELS = "kernels"
    LIBRARY = "library"


class Style(StrEnum):
    """The wording of the conversation: Kevin's published protocol, or plain ones for other models."""

    KEVIN = "kevin"
    GENERAL = "general"
    GENERAL_CPU = "general-cpu"


class Nans(StrEnum):
    """What a candidate owes NaN in its inputs: where the module has them, or nothing."""

    PROPAGATE = "propagate"
    IGNORE = "ignore"


class Isolation(StrEnum):
    """How well a worker is contained, from strong to weak; printed with every claim."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    PROCESS = "process"

    def reaches(self, minimum: Isolation) -> bool:
        """Whether this is at least as strong; a reward is refused for a verdict whose isolation does not reach."""
        order = list(Isolation)
        return order.index(self) <= order.index(minimum)


class Outcome(StrEnum):
    """How far a candidate got. `infra` is a fault of ours and never the candidate's."""

    NO_CODE = "no_code"
    REJECTED = "rejected"
    BUILD_FAILED = "build_failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    MISMATCH = "mismatch"
    TAMPERED = "tampered"
    CORRECT = "correct"
    INFRA = "infra"
