"""`kevin config show`: every setting, its value, and where that came from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from kevin_cli.commands.report import SCHEMA_VERSION, print_object
from kevin_cli.commands.session import take_order
from kevin_cli.errors import ExitCode
from kevin_cli.refine.secret_values import without_secrets
from kevin_cli.settings import PREFIX, project_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One setting. `place` is `default`, a variable's name, or the file."""

    key: str
    value: Any
    place: str


def run(flags: Mapping[str, Any]) -> int:
    """Raises `UsageError` for a key or a value that does not fit."""
    order = take_order(flags)
    values = values_of(order.settings.model_dump(mode="json"))
    if order.as_json:
        print_object({"schema_version": SCHEMA_VERSION, "settings": [asdict(value) for value in values]})
        return int(ExitCode.OK)
    order.screen.result(values_table(values))
    return int(ExitCode.OK)


def values_table(values: Sequence[Value]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("setting", "value", "from"):
        table.add_column(name, overflow="fold")
    for value in values:
        table.add_row(value.key, _text(value.value), value.place, style="dim" if value.place == "default" else "")
    return table


def values_of(settings: Mapping[str, Any]) -> list[Value]:
    """In the order in which they are declared; secrets are not shown."""
    path, table = project_table(Path.cwd())
    return [
        Value(
            key=key, value=without_secrets(value) if isinstance(value, str) else value, place=_place(key, table, path)
        )
        for key, value in settings.items()
    ]


def _place(key: str, table: Mapping[str, Any], path: Path | None) -> str:
    variable = PREFIX + key.upper()
    if os.environ.get(variable):
        return variable
    return str(path) if key in table else "default"


def _text(value: Any) -> str:
    if value is None or value == "":
        return "–"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
