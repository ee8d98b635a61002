"""Results for programs beside `--json`: one JSON object a line, or JUnit's XML for continuous integration."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kevin_cli.errors import UsageError

Format = Literal["text", "json", "jsonl", "junit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One judged thing as JUnit knows it. Neither `failure` nor `error`: it passed."""

    name: str
    group: str = ""
    wall_s: float = 0.0
    failure: str = ""
    """The candidate's own."""
    error: str = ""
    """A fault of ours."""
    skipped: str = ""
    text: str = ""


def write_result(path: Path, text: str | bytes, option: str) -> None:
    """A result into a file that the user named with `option`. Raises `UsageError` when it can't be written."""
    try:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    except OSError as error:
        raise UsageError(
            f"can't write to {path}: {os.strerror(error.errno or 0)}", f"name another file with {option}"
        ) from error


def print_line(row: dict[str, Any]) -> None:
    """One line of JSON lines on stdout."""
    print(json.dumps(row, ensure_ascii=False))


def print_junit(suite: str, cases: Sequence[Case]) -> None:
    print(junit(suite, cases))


def junit(suite: str, cases: Sequence[Case]) -> str:
    """One `<testsuites>` element, in the form that continuous integration reads."""
    counts = {
        "tests": len(cases),
        "failures": sum(bool(case.failure) for case in cases),
        "errors": sum(bool(case.error) for case in cases),
        "skipped": sum(bool(case.skipped) for case in cases),
    }
    numbers = {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites", numbers)
    time_s = f"{sum(case.wall_s for case in cases):.3f}"
    element = ET.SubElement(root, "testsuite", {"name": suite, **numbers, "time": time_s})
    for case in cases:
        _add(element, case)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode")


def _add(suite: ET.Element, case: Case) -> None:
    element = ET.SubElement(
        suite, "testcase", {"name": case.name, "classname": case.group or "kevin", "time": f"{case.wall_s:.3f}"}
    )
    for kind in ("failure", "error", "skipped"):
        if message := getattr(case, kind):
            ET.SubElement(element, kind, {"message": _printable(message)})
    if case.text:
        ET.SubElement(element, "system-out").text = _printable(case.text)


def _printable(text: str) -> str:
    """XML has no place for control characters, whatever a candidate wrote."""
    return "".join(letter for letter in text if letter in "\t\n" or " " <= letter <= "\ud7ff" or letter > "\ue000")
