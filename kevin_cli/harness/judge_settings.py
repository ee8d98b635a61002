"""What a judge needs to know beside the task: device, rules, limits and what is asked for besides.

Every field is plain, so that a pool can send it to another process; `pause` alone can't be sent.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from kevin_cli.types import DeviceKind, Isolation, Nans, Pause, Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """What the judge needs to know beside the task."""

    device: DeviceKind
    cache: Path
    """Folder for finished builds and scratch files; it must allow execution."""
    rules: Rules = Rules.LIBRARY
    python: str = field(default=sys.executable)
    build_timeout_s: float = 180.0
    call_timeout_s: float = 30.0
    """For one request to a candidate: its import, or one block of calls."""
    compiled_baseline: bool = True
    """Whether `torch.compile` is measured beside eager: it costs seconds a task, and training rewards against eager."""
    arena_bytes: int | None = None
    """Most memory for the inputs and outputs of one open task; `None` for the harness's own bound. Whoever keeps many
    small tasks open gives less."""
    isolation_minimum: Isolation = Isolation.PROCESS
    pause: Pause = nullcontext
    """Held while something is measured: a model on the same device is silent then."""
    hidden: tuple[Path, ...] = ()
    """Folders that no candidate may see beside the target's own: the directory of the run."""
    timing_budget_s: float | None = None
    """For the timed blocks of one process beyond the minimum of rounds; `None`: as usual on the device."""
    min_rounds: int | None = None
    """Timed rounds of a verdict that is not final, whatever the budget; `None`: as usual. Rewards need fewer."""
    profiled: bool = False
    """Whether the candidate's own share of the device time is taken whatever the rules; it costs about a second."""
    num_builds: int | None = None
    """Candidates that a pool builds ahead at once; `None`: one a core."""
    num_spares: int = 1
    """Workers that are kept warm: more than one when candidates come faster than workers start."""
    nans: Nans = Nans.PROPAGATE
    """Whether NaN in inputs must come out as the module's, though the user's inputs have none."""
    sanitize: bool = False
    """Whether compute-sanitizer looks at what is judged for good (`final`), and at what crashed."""
