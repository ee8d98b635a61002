"""The `kevin` command: options, and the one place where an exception becomes text and an exit code.

Only typer is imported here; each verb imports what it needs when it runs, so that `kevin --help` is quick
and works in an environment where torch does not. A `KevinError` prints one line and a hint. Anything
unexpected is a fault of ours: one line, a traceback saved to a file, exit code 4.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer

from kevin_cli import __version__
from kevin_cli.errors import ExitCode, KevinError
from kevin_cli.types import Isolation, Rules

app = typer.Typer(
    name="kevin",
    help="Makes a PyTorch module faster: a model writes kernels, a judge verifies and times them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


class DeviceChoice(StrEnum):
    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


class BaselineChoice(StrEnum):
    FASTEST = "fastest"
    EAGER = "eager"


Device = Annotated[
    DeviceChoice | None, typer.Option(help="Where kernels run; auto: CUDA when it works here, else CPU.")
]
Python = Annotated[
    str | None, typer.Option(help="Interpreter in which the module imports; default: the active environment's.")
]
RulesOption = Annotated[Rules | None, typer.Option(help="kernels: own kernels only. library: cuBLAS and ATen allowed.")]
Baseline = Annotated[BaselineChoice | None, typer.Option(help="What 'faster' means: than the fastest, or than eager.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds one proposal, build or run may take.")]
IsolationOption = Annotated[Isolation | None, typer.Option(help="The weakest containment of candidates to accept.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Only the result.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Every diff; tracebacks of faults of ours.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"kevin {__version__}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the verb."""


@app.command()
def optimize(
    target: Annotated[str, typer.Argument(help="model.py or model.py:ClassName")],
    device: Device = None,
    python: Python = None,
    turns: Annotated[int | None, typer.Option(help="Refinement turns of each trajectory.")] = None,
    trajectories: Annotated[int | None, typer.Option(help="Trajectories side by side.")] = None,
    model: Annotated[str | None, typer.Option(help="A model directory, or a name behind --endpoint.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Base URL of an OpenAI-compatible server.")] = None,
    rules: RulesOption = None,
    baseline: Baseline = None,
    out: Annotated[Path | None, typer.Option(help="Folder in which <name>_kevin/ is written.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the proposals.")] = None,
    timeout: Timeout = None,
    max_time: Annotated[float | None, typer.Option(help="Seconds for the whole search.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Completion tokens for the whole search.")] = None,
    isolation: IsolationOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Write a verified, faster extension for a PyTorch module."""
    flags = dict(locals())
    from kevin_cli.commands import optimize as verb

    return verb.run(flags.pop("target"), flags)


@app.command()
def check(
    reference: Annotated[str, typer.Argument(help="model.py or model.py:ClassName")],
    candidate: Annotated[Path, typer.Argument(help="A program that defines ModelNew.")],
    device: Device = None,
    python: Python = None,
    rules: RulesOption = None,
    baseline: Baseline = None,
    timeout: Timeout = None,
    isolation: IsolationOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Judge one kernel from any source against a reference."""
    flags = dict(locals())
    from kevin_cli.commands import check as verb

    return verb.run(flags.pop("reference"), flags.pop("candidate"), flags)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's folder or id; default: the last one.")] = "last",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Replay a recorded run with its diffs and verdicts."""
    flags = dict(locals())
    from kevin_cli.commands import show as verb

    return verb.run(flags.pop("run"), flags)


@app.command()
def bench(
    folder: Annotated[Path, typer.Argument(help="Files in KernelBench's form, or folders with reference.py.")],
    candidates: Annotated[Path | None, typer.Option(help="Folder of programs named after their tasks.")] = None,
    model: Annotated[str | None, typer.Option(help="Who proposes instead: as for optimize.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Base URL of an OpenAI-compatible server.")] = None,
    resume: Annotated[Path | None, typer.Option(help="File of rows to go on with; made when it is not there.")] = None,
    device: Device = None,
    python: Python = None,
    turns: Annotated[int | None, typer.Option(help="Refinement turns of each trajectory.")] = None,
    trajectories: Annotated[int | None, typer.Option(help="Trajectories side by side.")] = None,
    rules: RulesOption = None,
    baseline: Baseline = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the proposals.")] = None,
    timeout: Timeout = None,
    max_time: Annotated[float | None, typer.Option(help="Seconds for the search on each task.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Completion tokens for each task.")] = None,
    isolation: IsolationOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Judge a folder of tasks × candidates, or × a model: fast_p, geometric means, rows in a file."""
    flags = dict(locals())
    from kevin_cli.commands import bench as verb

    return verb.run(flags.pop("folder"), flags)


@app.command()
def doctor(
    device: Device = None,
    python: Python = None,
    model: Annotated[str | None, typer.Option(help="A model directory to look at.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="An endpoint to ask.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Probe this machine: compilers, GPU, torch, sandbox, weights, and a timing self-check."""
    flags = dict(locals())
    from kevin_cli.commands import doctor as verb

    return verb.run(flags)


def complain(message: str, hint: str = "") -> None:
    """The form that every error takes: one clear line, and what to do next."""
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    if hint:
        typer.echo(f"hint: {hint}", err=True)


def _report_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """`sys.excepthook`: a fault of ours leaves one line, a saved traceback and exit code 4."""
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(kind, error, trace))
    with tempfile.NamedTemporaryFile("w", prefix="kevin-fault-", suffix=".txt", delete=False) as file:
        file.write(text)
    if {"-v", "--verbose"} & set(sys.argv):
        typer.echo(text, err=True)
    complain(f"a fault of kevin itself: {kind.__name__}: {error}", f"the traceback is in {file.name}; please report it")
    raise SystemExit(int(ExitCode.INTERNAL))


def main() -> None:
    """Entry point of the `kevin` script."""
    sys.excepthook = _report_fault
    sys.exit(_run())


def _run() -> int:
    try:
        result: Any = typer.main.get_command(app)(prog_name="kevin", standalone_mode=False)
    except KevinError as error:
        complain(error.message, error.hint)
        return int(error.exit_code)
    except typer.TyperException as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return int(ExitCode.INTERRUPTED)
    return int(result or 0)


def _usage(error: typer.TyperException) -> int:
    """What typer says about the command line, in our form. Bare `kevin` prints the help and is no error."""
    context = getattr(error, "ctx", None)
    if not isinstance(error, typer.BadParameter) and context and error.message == context.get_help():
        typer.echo(error.message)
        return 0
    command = context.command_path if context else "kevin"
    complain(error.format_message(), f"see '{command} --help'")
    return int(ExitCode.USAGE)
