"""The options of `kevin`, each written once, in groups that verbs take as a whole.

A verb is a function with its own parameters and, last, `flags`; `@takes(Group, ...)` puts the options of the
groups on its command line and hands their values over in that one dictionary. Names are those of
`settings.Settings`, so that `settings.read(flags)` fits. Only typer is imported here: `kevin --help` reads
this file and every file in `verbs/`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from kevin_cli.types import Isolation, Nans, Rules

Flags = dict[str, Any]
Verb = Callable[..., int]


class DeviceChoice(StrEnum):
    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


class BaselineChoice(StrEnum):
    FASTEST = "fastest"
    EAGER = "eager"


class SearchChoice(StrEnum):
    SERIAL = "serial"
    PARALLEL = "parallel"
    BEAM = "beam"


class PoolChoice(StrEnum):
    LOCAL = "local"
    RAY = "ray"


class FormatChoice(StrEnum):
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    JUNIT = "junit"


class ListFormatChoice(StrEnum):
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


class Where:
    """Where the module imports, and where kernels run."""

    device: Annotated[
        DeviceChoice | None, typer.Option(help="Where kernels run; auto: CUDA when it works here, else CPU.")
    ] = None
    python: Annotated[
        str | None, typer.Option(help="Interpreter in which the module imports; default: the active environment's.")
    ] = None


class Given:
    """What the module is given."""

    inputs: Annotated[str | None, typer.Option(help="file.py:factory that returns forward's arguments.")] = None
    recipes: Annotated[
        list[str] | None, typer.Option("--input", help="One argument: 'x=randn(8,1024,dtype=bf16)'; repeat it.")
    ] = None
    weights: Annotated[Path | None, typer.Option(help="A checkpoint to load into the module.")] = None
    run: Annotated[
        str | None, typer.Option(help="A command that calls it ('python train.py', pytest::TEST): its real inputs.")
    ] = None
    run_timeout: Annotated[float | None, typer.Option(help="Seconds that command may take: 300.")] = None
    name: Annotated[
        str | None, typer.Option(help="What it is called, and its package: 'NAME_kevin'; default: as the class is.")
    ] = None


class Judging:
    """What the judge holds a candidate to."""

    rules: Annotated[
        Rules | None, typer.Option(help="kernels: own kernels only. library: cuBLAS and ATen allowed.")
    ] = None
    nans: Annotated[Nans | None, typer.Option(help="propagate: NaN comes out as the module's. ignore: a note.")] = None
    sanitize: Annotated[
        bool | None, typer.Option("--sanitize", help="Run the kernel under compute-sanitizer as well (CUDA).")
    ] = None
    baseline: Annotated[
        BaselineChoice | None, typer.Option(help="What 'faster' means: than the fastest, or than eager.")
    ] = None
    timeout: Annotated[float | None, typer.Option(help="Seconds one proposal, build or run may take.")] = None
    isolation: Annotated[Isolation | None, typer.Option(help="The weakest containment of candidates to accept.")] = None


class Proposing:
    """Who proposes."""

    model: Annotated[
        str | None, typer.Option(help="kevin, a model directory, vllm:MODEL, serve:MODEL, or a name behind --endpoint.")
    ] = None
    endpoint: Annotated[str | None, typer.Option(help="Base URL of an OpenAI-compatible server.")] = None


class Gpus:
    """Who computes where."""

    model_gpus: Annotated[str | None, typer.Option(help="GPUs for the model: 1,2. Default: those left over.")] = None
    kernel_gpus: Annotated[str | None, typer.Option(help="The GPU on which kernels are timed. Default: 0.")] = None


class Pooling:
    """How many devices judge."""

    pool: Annotated[
        PoolChoice | None, typer.Option(help="Judge on all GPUs: of this machine (local), of a Ray cluster (ray).")
    ] = None


class Wording:
    """How the model is asked."""

    templates: Annotated[Path | None, typer.Option(help="Folder with prompt templates of your own.")] = None


class Searching:
    """How much is proposed for one task."""

    search: Annotated[
        SearchChoice | None, typer.Option(help="Trajectories one by one, side by side, or selected every 4 turns.")
    ] = None
    turns: Annotated[int | None, typer.Option(help="Refinement turns of each trajectory: 4; beam: 8.")] = None
    trajectories: Annotated[int | None, typer.Option(help="How many trajectories: 2; beam: 16.")] = None
    keep: Annotated[int | None, typer.Option(help="Beam: trajectories kept at each selection: 4.")] = None
    copies: Annotated[int | None, typer.Option(help="Beam: how often each of them goes on: 4.")] = None
    until: Annotated[str | None, typer.Option(help="End at 1.5x (times faster) or 90% (of the limit).")] = None
    max_turns: Annotated[int | None, typer.Option(help="Turns over all trajectories.")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of the proposals.")] = None
    max_time: Annotated[float | None, typer.Option(help="Seconds for the search on one task.")] = None
    max_tokens: Annotated[int | None, typer.Option(help="Completion tokens for one task.")] = None
    max_cost: Annotated[float | None, typer.Option(help="Money for one task; needs --price.")] = None
    price: Annotated[str | None, typer.Option(help="Money for a million tokens: PROMPT,COMPLETION.")] = None


class Recording:
    """What is kept of a run."""

    git: Annotated[
        bool | None, typer.Option("--git/--no-git", help="Commit every turn to a branch kevin/<run>: yes.")
    ] = None


class Talking:
    """How the result is told."""

    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Only the result.")] = False
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Every diff; tracebacks of faults of ours.")] = False


class Formats:
    """For verbs whose result is a list of judged things."""

    output_format: Annotated[
        FormatChoice | None, typer.Option(help="text, json (as --json), jsonl (one object a line), junit (XML).")
    ] = None


class ListFormats:
    """For verbs whose result is a list of things of which none passes or fails."""

    output_format: Annotated[
        ListFormatChoice | None, typer.Option(help="text, json (as --json), jsonl (one object a line).")
    ] = None


def takes(*groups: type) -> Callable[[Verb], Verb]:
    """Put the options of `groups` on a verb's command line; their values arrive in its parameter `flags`."""
    options = [option for group in groups for option in _options_of(group)]
    names = [option.name for option in options]

    def decorate(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def command(**given: Any) -> int:
            flags = {name: given.pop(name) for name in names}
            return verb(**given, flags=flags)

        hints = get_type_hints(verb, include_extras=True)
        own = [
            parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            for parameter in inspect.signature(verb).parameters.values()
            if parameter.name != "flags"
        ]
        command.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *options]}
        return command

    return decorate


def _options_of(group: type) -> list[inspect.Parameter]:
    """The attributes of a group as keyword parameters, in the order in which they stand."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(group, name), annotation=annotation)
        for name, annotation in get_type_hints(group, include_extras=True).items()
    ]


Target = Annotated[str, typer.Argument(help="model.py, model.py:Name, package.module:Name, model.py:Name::sub.module")]
Run = Annotated[str, typer.Argument(help="A run's folder or id; default: the last one.")]
Out = Annotated[Path | None, typer.Option(help="Folder in which <name>_kevin/ is written.")]
