"""What `kevin doctor` found, one line each, with the fix below what needs one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from kevin_cli.show.words import CAUTION

State = Literal["ok", "warn", "missing"]
COLOURS: dict[State, str] = {"ok": "green", "warn": CAUTION, "missing": "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One probe: what was tried, how it went, and what to do about it."""

    name: str
    state: State
    text: str
    fix: str = ""


def finding_lines(finding: Finding) -> RenderableType:
    head = Text.assemble(
        (f"{finding.state:<8}", f"bold {COLOURS[finding.state]}"), (f"{finding.name:<10} ", "bold"), finding.text
    )
    if finding.state == "ok" or not finding.fix:
        return head
    return Group(head, Text(f"{'':<8}fix: {finding.fix}", style="dim"))


def findings_block(findings: Sequence[Finding]) -> RenderableType:
    return Group(*map(finding_lines, findings))
