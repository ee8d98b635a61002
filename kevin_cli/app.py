"""The `kevin` command: its verbs, and the one place where an exception becomes text and an exit code.

Only typer and the command lines of the verbs are imported here; what a verb does is imported when it runs, so
that `kevin --help` is quick and works in an environment where torch does not. A new verb is a file in
`commands/verbs/` and a line in `VERBS`. A `KevinError` prints one line and a hint. Anything
unexpected is a fault of ours: one line, a traceback saved to a file, exit code 4.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Annotated, Any

import typer

from kevin_cli import __version__
from kevin_cli.commands.verbs import (
    apply,
    bench,
    check,
    completion,
    config,
    doctor,
    models,
    optimize,
    profile,
    report,
    runs,
    schema,
    selftest,
    serve,
    show,
    verify,
)
from kevin_cli.errors import ExitCode, KevinError

app = typer.Typer(
    name="kevin",
    help="Makes a PyTorch module faster: a model writes kernels, a judge verifies and times them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


VERBS: dict[str, Callable[..., int]] = {
    "optimize": optimize.command,
    "check": check.command,
    "profile": profile.command,
    "show": show.command,
    "apply": apply.command,
    "verify": verify.command,
    "report": report.command,
    "bench": bench.command,
    "serve": serve.command,
    "models": models.command,
    "doctor": doctor.command,
    "selftest": selftest.command,
    "schema": schema.command,
    "completion": completion.command,
}
"""In the order of the help."""

GROUPS = {
    "runs": runs.group,
    "config": config.group,
}
"""Verbs that have verbs of their own."""


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


for _name, _command in VERBS.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def complain(message: str, hint: str = "") -> None:
    """The form that every error takes: one clear line, and what to do next. Where nobody can read it, nothing."""
    with contextlib.suppress(OSError):
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
    if COMPLETE in os.environ:
        _teach_shells()
    sys.exit(_run())


COMPLETE = "_KEVIN_COMPLETE"
"""Set by the scripts of `kevin completion` when a shell asks what could come next."""


def _teach_shells() -> None:
    """typer knows the shells only with its own --install-completion, which asks them which one is running."""
    from typer._completion_classes import completion_init

    completion_init()


def _run() -> int:
    try:
        result: Any = typer.main.get_command(app)(prog_name="kevin", standalone_mode=False)
        if sys.stdout:
            sys.stdout.flush()
    except KevinError as error:
        complain(error.message, error.hint)
        return int(error.exit_code)
    except typer.TyperException as error:
        return _usage(error)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return int(ExitCode.INTERRUPTED)
    except OSError as error:
        return _unwritable(error)
    except SystemExit as end:  # click and rich make an exit of their own of a closed pipe
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return _unwritable(end.__context__)
    return int(result or 0)


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _unwritable(error: OSError) -> int:
    """Nobody reads what we write, or there is no room for it. Anything else is a fault of ours, and goes on."""
    if isinstance(error, BrokenPipeError):
        _silence()
        return int(ExitCode.PIPE_CLOSED)
    if error.errno not in NO_ROOM:
        raise error
    complain(f"can't write {error.filename or 'the output'}: {error.strerror}", "make room there, or write elsewhere")
    _silence()
    return int(ExitCode.MACHINE)


def _silence() -> None:
    """What is left in the buffers goes nowhere: at exit Python would fail to write it once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError):
            stream.flush()
            continue
        os.dup2(nowhere, stream.fileno())


def _usage(error: typer.TyperException) -> int:
    """What typer says about the command line, in our form. Bare `kevin` prints the help and is no error."""
    context = getattr(error, "ctx", None)
    if not isinstance(error, typer.BadParameter) and context and error.message == context.get_help():
        typer.echo(error.message)
        return 0
    command = context.command_path if context else "kevin"
    complain(error.format_message().replace(": Value error, ", ": "), f"see '{command} --help'")
    return int(ExitCode.USAGE)
