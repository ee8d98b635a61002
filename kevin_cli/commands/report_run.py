"""`kevin report RUN`: one HTML file and one Markdown file about a recorded run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.recorded import read_run
from kevin_cli.commands.report import SCHEMA_VERSION, print_object
from kevin_cli.errors import ExitCode, UsageError
from kevin_cli.show import report


def run(name: str, out: Path | None, flags: Mapping[str, Any]) -> int:
    """Raises `UsageError` when there is no such run, or the folder can't be written."""
    order = sessions.take_order(flags)
    recorded = read_run(name, order.settings.runs)
    folder = out or recorded.folder
    texts = {folder / "report.html": report.html(recorded), folder / "report.md": report.markdown(recorded)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't write to {folder}: {error.strerror}", "name another folder with --out") from error
    if order.as_json:
        html, markdown = (str(path.resolve()) for path in texts)
        print_object({"schema_version": SCHEMA_VERSION, "run": recorded.id, "html": html, "markdown": markdown})
    else:
        for path in texts:
            order.screen.result(str(path))
    return int(ExitCode.OK)
