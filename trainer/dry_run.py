"""`kevin-train run --dry-run`: the plan as text or JSON, and an exit code that says whether it can work."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from kevin_cli.errors import ExitCode
from trainer.config import Config
from trainer.plan import Amount, make, refusals

SCHEMA_VERSION = 1


def show(config: Config, *, as_json: bool) -> int:
    """Print what the configuration comes to. Returns 0, or 2 when it can't work."""
    plan, refused = make(config), refusals(config)
    if as_json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "name": config.name, "refused": refused, **asdict(plan)}))
    else:
        print(f"{config.name}: planned, nothing here is a measurement")
        for title, amounts in (("batch", plan.batch), ("memory", plan.memory), ("one batch", plan.phases)):
            print(_block(title, amounts), end="")
    for reason in refused:
        print(f"refused: {reason}", file=sys.stderr)
    return int(ExitCode.USAGE if refused else ExitCode.OK)


def _block(title: str, amounts: Sequence[Amount]) -> str:
    if not amounts:
        return ""
    lines = [f"  {amount.what:<30} {_value(amount):>12}  {amount.how}".rstrip() for amount in amounts]
    return "\n".join([f"\n{title}", *lines]) + "\n"


def _value(amount: Amount) -> str:
    digits = 0 if amount.value == int(amount.value) else 1 if amount.value >= 1 else 2
    return f"{amount.value:,.{digits}f} {amount.unit}".rstrip()
