"""The values that travel through kevin, and the two protocols that join its rooms.

Every record here is frozen and holds plain Python only, so that a task, a turn or a verdict can be
written to a journal, sent to another process and compared, on a machine that has no torch. What a
policy proposes and what the judge answers are data; a fault of ours is an exception (`errors.py`).

Not promised: that a value is true because it has the right type. A `Verdict` is as good as the judge
that made it, and says under which isolation it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Protocol

# --- words -----------------------------------------------------------------------------------------


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


# --- the task --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """What values a tensor takes, inferred from the user's own inputs; drawn values stay inside."""

    kind: Literal["real", "non_negative", "positive", "unit", "integer", "boolean"]
    low: float
    """Smallest value seen (for `integer`: inclusive)."""
    high: float
    """Largest value seen (for `integer`: inclusive)."""
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Shape, type and layout of one tensor; a kernel for fixed shapes is right inside it."""

    shape: tuple[int, ...]
    dtype: str
    """torch's name without the prefix: `float32`, `bfloat16`, `int64`, `bool`."""
    strides: tuple[int, ...]
    """In elements, one for each dimension."""
    domain: Domain | None = None
    """Known for inputs, `None` for outputs and parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The structure around tensors: a tensor leaf, a plain value, or a container of trees."""

    kind: Literal["tensor", "value", "list", "tuple", "dict"]
    index: int = -1
    """For `tensor`: its place in the flat list of specs."""
    value: bool | int | float | str | None = None
    """For `value`: the plain value itself."""
    items: tuple[Tree, ...] = ()
    keys: tuple[str, ...] = ()
    """For `dict`: one key for each item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """One entry of the reference's `state_dict`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: Literal["parameter", "buffer"]
    tied_to: str = ""
    """The earlier entry that shares its storage (tied weights); empty when it has its own."""


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A graph argument that is another node's result."""

    node: str


@dataclass(frozen=True, slots=True)
class ArgList:
    """A graph argument that is a list: dimensions, sizes, several tensors."""

    items: tuple[NodeRef | ArgList | bool | int | float | str | None, ...]


Arg = NodeRef | ArgList | bool | int | float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation of the lowered module."""

    name: str
    op: str
    """`input`, `parameter`, `buffer`, `constant`, `output`, or an ATen overload such as `aten.mul.Tensor`."""
    args: tuple[Arg, ...] = ()
    kwargs: tuple[tuple[str, Arg], ...] = ()
    shape: tuple[int, ...] | None = None
    """Shape of the result; `None` when it is not one tensor."""
    dtype: str | None = None
    strides: tuple[int, ...] | None = None
    target: str | None = None
    """For `parameter` and `buffer`: the `state_dict` name. For `input`: its flat index as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The module as ATen operations in execution order; the last node is the output."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecipe:
    """One argument of `forward`, as `--input` describes it: `x=randn(8,1024,dtype=bf16)`."""

    name: str = ""
    """The argument's name; empty for the next position."""
    function: Literal["randn", "rand", "randint", "zeros", "ones", "full", "arange", "value"]
    """The torch function that makes it; `value` for a plain value."""
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    low: int = 0
    high: int = 2
    """For `randint`: values from `low` up to and without `high`. For `arange`: `high` without `low`."""
    value: bool | int | float | str | None = None
    """For `value` and `full`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the user pointed at: a name in a file, and how its inputs and weights are had."""

    path: str
    """Absolute path of the Python file."""
    class_name: str
    """What the file binds: a class, a function, an instance, or `make_model()` for what a call returns."""
    python: str
    """Interpreter in which the file's imports resolve."""
    submodule: str = ""
    """A module inside of it: `encoder.layers.3.mlp`; empty for the whole."""
    recipes: tuple[InputRecipe, ...] = ()
    """The inputs, when they were given on the command line."""
    inputs_from: str = ""
    """`file.py:factory`, when the inputs come from elsewhere than `get_inputs` of the same file."""
    weights: str = ""
    """Absolute path of a checkpoint for the module (of the whole, when a submodule is meant)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a kernel may rely on. Outside of it the package falls back to the user's module."""

    device: DeviceKind
    inputs: tuple[TensorSpec, ...]
    grad: bool = False
    """Whether gradients must flow; candidates are forward-only unless this is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A module to make faster, lowered to a self-contained form."""

    name: str
    """Short, fit for a directory name: `rms_norm`."""
    digest: str
    """sha256 of everything that defines the task, in hex."""
    target: Target
    form: Literal["class", "function", "instance"] = "class"
    """`class`: candidates are constructed with `init`. Otherwise without arguments: of a function there is
    nothing to construct, and an instance's construction is the user's own."""
    shown_class: str = ""
    """The class with which `source` ends, when it is not the target's `class_name`."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Plain attributes of the module and its submodules, (`norm.eps`, `1e-05`): two modules of one class that
    agree in these and in the shapes of their weights compute the same."""
    source: str
    """The module's source as the prompt shows it, up to the end of the class; no input factories."""
    init: Tree
    """Constructor arguments: a tuple tree of plain values (tensors are refused in this version)."""
    init_keywords: Tree
    """Keyword arguments of the constructor: a dict tree."""
    inputs: Tree
    """The arguments of `forward`: a tuple tree."""
    keyword_names: tuple[str, ...] = ()
    """Of the last arguments, where the module's `forward` takes them by keyword only. A candidate takes all by
    position."""
    outputs: Tree
    output_specs: tuple[TensorSpec, ...]
    parameters: tuple[ParameterSpec, ...]
    contract: Contract
    graph: Graph | None
    graph_note: str = ""
    """Why there is no graph, when there is none."""
    training: bool = False
    """The mode in which the module is verified; `eval()` unless the user's code says otherwise."""
    compulsory_bytes: int = 0
    """What any implementation must read and write in one call; 0 when nobody counted."""

    @property
    def class_name(self) -> str:
        """The class that `source` shows last."""
        return self.shown_class or self.target.class_name


# --- what a policy does ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one completion may cost."""

    max_tokens: int
    temperature: float
    timeout_s: float
    seed: int
    """Differs for each trajectory and turn, so that equal prompts give different candidates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What the policy returned, text and tokens."""

    text: str
    finish_reason: Literal["stop", "length", "filtered", "error"]
    model: str
    messages: tuple[Message, ...] = ()
    """The rendered prompt it answers; empty for policies that read the trajectory itself."""
    reasoning: str = ""
    """Reasoning that the server returned apart from the text; never shown to the next turn."""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    num_prompt_tokens: int | None = None
    num_completion_tokens: int | None = None
    wall_s: float = 0.0
    error: str = ""
    """For `finish_reason == "error"`: what the server said, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A proposed kernel: one Python program that defines `ModelNew`."""

    source: str
    digest: str
    """sha256 of the source, in hex."""


# --- what the judge says ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long one call takes, in µs."""

    median_us: float
    low_us: float
    high_us: float
    """`low_us` and `high_us`: the 95 % bootstrap interval of the median."""
    num_samples: int
    samples_us: tuple[float, ...] = ()
    """The times themselves, in the order in which they were taken; empty where they were not kept."""


LAUNCH_BOUND_SHARE = 0.7
"""A kernel whose device time is a smaller share of its call's than this is bound by launching."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Candidate against one baseline: the median of paired ratios baseline / candidate."""

    baseline: str
    """`eager`, or a mode of torch.compile: `compile` (its default), `reduce-overhead`, `max-autotune`."""
    median: float
    low: float
    high: float
    """`low` and `high`: the 95 % bootstrap interval over blocks."""
    noise_floor: float
    """How far from 1 a comparison of a thing with itself strays, e.g. 0.02."""
    baseline_timing: Timing
    candidate_timing: Timing

    @property
    def is_faster(self) -> bool:
        """True only when the interval clears 1 by more than the noise floor."""
        return self.low > 1.0 + self.noise_floor

    @property
    def is_slower(self) -> bool:
        return self.high < 1.0 - self.noise_floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What else the machine did while something was timed."""

    num_rounds: int
    """Rounds that count, over all processes."""
    num_repeated: int = 0
    """Rounds that were disturbed and measured again."""
    num_disturbed: int = 0
    """Disturbed rounds that count all the same: there was no end to it."""
    why: str = ""
    """What disturbed most of them."""
    clocks_mhz: tuple[int, int] | None = None
    """The lowest and the highest clock of the device after a block, where it can be asked."""
    notes: tuple[str, ...] = ()
    """What a reader should know beside: a power limit that was reached, what could not be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputCheck:
    """How one output compares with the float64 reference, over all seeds."""

    index: int
    passed: bool
    rms_error: float
    reference_rms_error: float
    """The error of the user's own module in its own precision against the same float64 reference."""
    max_error: float
    bound: float
    """The RMS error that was allowed."""
    precision_class: str = ""
    """Which precision the error resembles: `fp32`, `tf32`, `bf16`, `fp16`, `exact`."""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """How the candidate's extensions were built."""

    way: Literal["thin", "stock", "none"]
    """`thin`: our headers; `stock`: torch's own; `none`: the candidate built nothing."""
    wall_s: float
    num_libraries: int
    cached: bool
    note: str = ""
    """Why the stock headers were used, when they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What one call of a candidate did, as its own process says. It decides about rules, never about correctness."""

    num_own: int
    """Calls of functions that the candidate's own libraries define."""
    num_torch: int
    """Operations of torch that compute."""
    own_ns: int = 0
    other_ns: int = 0
    """Device time in the candidate's own kernels and in others; both 0 where nothing was profiled."""
    top: tuple[str, ...] = ()
    """The most frequent of those operations, or the longest of those kernels; untrusted text."""

    @property
    def own_share(self) -> float | None:
        """The candidate's own share of the device time; `None` where nothing was profiled."""
        total_ns = self.own_ns + self.other_ns
        return self.own_ns / total_ns if total_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's answer to one candidate."""

    outcome: Outcome
    detail: str
    """One line for people: what happened."""
    log: str = ""
    """The relevant lines of a compiler or a traceback; capped, without control characters, untrusted."""
    comparisons: tuple[Comparison, ...] = ()
    checks: tuple[OutputCheck, ...] = ()
    weights: tuple[tuple[str, str], ...] = ()
    """The weights map: (name in the candidate, name in the reference)."""
    seeds: tuple[int, ...] = ()
    """The secret seeds, published afterwards so that a verdict can be replayed."""
    build: BuildReport | None = None
    isolation: Isolation = Isolation.PROCESS
    rules: Rules = Rules.LIBRARY
    reference_precision: str = ""
    """How the float64 reference was had: `float64`, `float64 on cpu`, `float32`."""
    weak_check: str = ""
    """Why this task cannot tell right from wrong, when it cannot; empty otherwise."""
    notes: tuple[str, ...] = ()
    """What the judge saw that is no fault: results that differ from call to call, no kernel of its own."""
    watched: Watched | None = None
    """What one call did; `None` when the candidate did not get that far or could not be watched."""
    self_reported_us: float | None = None
    """A call's time by the candidate's own process, in the timed blocks; checked against ours, else not used."""
    wall_s: float = 0.0
    in_graph: tuple[Comparison, ...] = ()
    """The same in CUDA graphs: device time without launches. Of a final judgement on a GPU."""
    not_in_graph: tuple[tuple[str, str], ...] = ()
    """What has no device time, `candidate` or a baseline, and why."""
    conditions: Conditions | None = None

    def __post_init__(self) -> None:
        if (self.comparisons or self.in_graph) and self.outcome is not Outcome.CORRECT:
            raise ValueError("only a correct candidate has a speed")

    @property
    def launch_bound(self) -> tuple[float, float] | None:
        """(µs a call, µs of it on the device) of a candidate whose calls are mostly launching; else `None`."""
        if not self.in_graph or not self.comparisons:
            return None
        call_us = self.comparisons[0].candidate_timing.median_us
        device_us = self.in_graph[0].candidate_timing.median_us
        return (call_us, device_us) if device_us < LAUNCH_BOUND_SHARE * call_us else None

    @property
    def is_correct(self) -> bool:
        return self.outcome is Outcome.CORRECT

    def against(self, baseline: str) -> Comparison | None:
        """The comparison with one baseline by name, or `None` when it was not made."""
        return next((c for c in self.comparisons if c.baseline == baseline), None)

    def against_fastest(self) -> Comparison | None:
        """The comparison with the fastest baseline: the one with the lowest median time."""
        return min(self.comparisons, key=lambda c: c.baseline_timing.median_us, default=None)


# --- the loop --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Prompt, completion, candidate, verdict, and the feedback that the next prompt will carry."""

    index: int
    completion: Completion
    candidate: Candidate | None
    verdict: Verdict
    feedback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """The turns on one task, in order. Immutable, so `extended` branches."""

    task: Task
    index: int
    turns: tuple[Turn, ...] = ()
    parent: int | None = None
    """The trajectory that this one was copied from (beam search)."""
    num_shared: int = 0
    """How many of its turns were the parent's."""

    @property
    def own_turns(self) -> tuple[Turn, ...]:
        """Without those that were made, and paid, by the parent."""
        return self.turns[self.num_shared :]

    def extended(self, turn: Turn) -> Trajectory:
        return replace(self, turns=(*self.turns, turn))

    def best(self, baseline: str | None = None) -> Turn | None:
        """The fastest correct turn against one baseline (default: the fastest), if any."""

        def speed(turn: Turn) -> float:
            verdict = turn.verdict
            found = verdict.against(baseline) if baseline else verdict.against_fastest()
            return found.median if found else 0.0

        correct = [turn for turn in self.turns if turn.verdict.is_correct]
        return max(correct, key=speed, default=None)


class Stage(StrEnum):
    """What is being done to one turn right now."""

    PROPOSING = "proposing"
    BUILDING = "building"
    VERIFYING = "verifying"
    WAITING = "waiting for another kevin that holds the device"
    TIMING = "timing"
    FINISHED = "finished"
    FINAL = "judging the winner again"
    SELECTED = "selected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Progress of one turn, for whoever watches."""

    trajectory: int
    turn: int
    stage: Stage
    finished: Turn | None = None
    """Set on `FINISHED`."""
    kept: tuple[int, ...] = ()
    """On `SELECTED`: the trajectories that a beam goes on with, the fastest first."""
    copied: tuple[tuple[int, int], ...] = ()
    """On `SELECTED`: each new trajectory, and the one that it is a copy of."""


Watch = Callable[[Event], None]
StageWatch = Callable[[Stage], None]

Pause = Callable[[], AbstractAsyncContextManager[object]]
"""Entered by the judge before it measures: while it is held, no model computes on the judge's device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How far a completion has come, for whoever watches; told a few times a second at most."""

    trajectory: int
    turn: int
    num_tokens: int
    """Tokens, or pieces of a stream where the server does not count."""
    elapsed_s: float
    is_reasoning: bool
    """Whether the model still reasons: such text is for nobody, so a view may collapse it."""
    tail: str
    """The last words."""

    @property
    def tokens_per_s(self) -> float:
        return self.num_tokens / self.elapsed_s if self.elapsed_s > 0 else 0.0


Hear = Callable[[Writing], None]


class Policy(Protocol):
    """Whoever proposes: a language model, the embedded proposer, or a script in a test."""

    name: str
    """Shown to the user and recorded: `embedded`, `http smollm2 at 127.0.0.1:8000`."""

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        """Answer the trajectory so far. Failures of a server are data (`finish_reason`), not exceptions."""
        ...

    async def close(self) -> None: ...


class Judge(Protocol):
    """Whoever decides. One judge serves many candidates of one task."""

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        """Build, verify and time. `final` draws fresh inputs, several processes and more samples."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """How fast a task could be at best on this device, by what was measured there.

    Williams, Waterman & Patterson, Roofline: An Insightful Visual Performance Model, CACM 52 (2009).
    """

    limit_us: float
    limited_by: Literal["memory", "cache", "compute"]
    """`cache`: everything fits into the last-level cache, so memory bandwidth does not bind."""
    num_bytes: int
    """Compulsory bytes of one call."""
    num_flops: int
    """Of the matrix products, convolutions and attention in the graph; 0 when there are none."""
    bytes_per_s: float
    flops_per_s: float
    """The ceilings that were used; `flops_per_s` is 0 when there are no products."""
    is_certain: bool = False
    """Whether the limit binds any right kernel: far more bytes than the cache holds, all of them needed."""
    believable_us: float = 0.0
    """Any shorter time is impossible, caches granted; 0 when nothing that firm can be said."""

    def share(self, time_us: float) -> float:
        """How much of the limit a time reaches: 1 is all that the device can do."""
        return self.limit_us / time_us


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """What the judge found out about a task before any candidate was paid for."""

    baselines: tuple[tuple[str, Timing], ...]
    """Name and time of every baseline that could be measured; `eager` is always first."""
    missing: tuple[tuple[str, str], ...] = ()
    """Name of every baseline that could not be measured, and why."""
    weak_check: str = ""
    reference_precision: str = "float64"
    noise_floor: float = 0.0
    isolation: Isolation = Isolation.PROCESS
    isolation_note: str = ""
    """Why it is not stronger, when it is not."""
    device_name: str = ""
    versions: tuple[tuple[str, str], ...] = field(default=())
    """Program and version: torch, python, compiler, driver."""
    roofline: Roofline | None = None
    """`None` when the device could not be measured."""
    device_times: tuple[tuple[str, Timing], ...] = ()
    """Name and device time of every baseline that runs in a CUDA graph: a call without its launches."""
    not_in_graph: tuple[tuple[str, str], ...] = ()
    """Name of every baseline that has no device time, and why; empty where there is no GPU."""
    other_tf32: tuple[tuple[str, Timing], ...] = ()
    """Baselines under another setting of TF32 than the user's: shown, never what a speedup is relative to."""
    conditions: Conditions | None = None
    measured: str = ""
    """When the baselines were measured, if not just now: they were kept from an earlier run."""
