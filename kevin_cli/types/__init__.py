"""The values that travel through kevin, and the two protocols that join its rooms.

Every record here is frozen and holds plain Python only, so that a task, a turn or a verdict can be
written to a journal, sent to another process and compared, on a machine that has no torch. What a
policy proposes and what the judge answers are data; a fault of ours is an exception (`errors.py`).

Not promised: that a value is true because it has the right type. A `Verdict` is as good as the judge
that made it, and says under which isolation it was made.
"""

from kevin_cli.types.loop import (
    Trajectory,
    Turn,
)
from kevin_cli.types.progress import (
    Event,
    Hear,
    Pause,
    Stage,
    StageWatch,
    Watch,
    Writing,
)
from kevin_cli.types.proposal import (
    Candidate,
    Completion,
    Limits,
    Message,
)
from kevin_cli.types.protocols import (
    Judge,
    Policy,
)
from kevin_cli.types.report import (
    Roofline,
    TaskReport,
)
from kevin_cli.types.task import (
    Arg,
    ArgList,
    Contract,
    Domain,
    Graph,
    InputRecipe,
    Node,
    NodeRef,
    ParameterSpec,
    Target,
    Task,
    TensorSpec,
    Tree,
)
from kevin_cli.types.verdict import (
    DEFAULT_STREAM_ONLY,
    LAUNCH_BOUND_SHARE,
    BuildReport,
    Comparison,
    Conditions,
    OutputCheck,
    SanitizerCheck,
    Timing,
    Verdict,
    Watched,
)
from kevin_cli.types.words import (
    DeviceKind,
    Isolation,
    Nans,
    Outcome,
    Rules,
    Style,
)

__all__ = [
    "DEFAULT_STREAM_ONLY",
    "LAUNCH_BOUND_SHARE",
    "Arg",
    "ArgList",
    "BuildReport",
    "Candidate",
    "Comparison",
    "Completion",
    "Conditions",
    "Contract",
    "DeviceKind",
    "Domain",
    "Event",
    "Graph",
    "Hear",
    "InputRecipe",
    "Isolation",
    "Judge",
    "Limits",
    "Message",
    "Nans",
    "Node",
    "NodeRef",
    "Outcome",
    "OutputCheck",
    "ParameterSpec",
    "Pause",
    "Policy",
    "Roofline",
    "Rules",
    "SanitizerCheck",
    "Stage",
    "StageWatch",
    "Style",
    "Target",
    "Task",
    "TaskReport",
    "TensorSpec",
    "Timing",
    "Trajectory",
    "Tree",
    "Turn",
    "Verdict",
    "Watch",
    "Watched",
    "Writing",
]
