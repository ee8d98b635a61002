"""What `kevin selftest` leaves: the object of `--json`, and a report in a folder that grows piece by piece.

A report keeps the rows of an earlier run whose programs have not changed since, so that a corpus of half an hour can
be judged in pieces; every row has its own date and commit. It is written while the test goes on. A later run into
the same folder leaves out what was right before at the same commit.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kevin_cli.commands.selftest_judging import Found
from kevin_cli.corpus import read_corpus
from kevin_cli.corpus.rows import Row, by_family, count
from kevin_cli.errors import UsageError
from kevin_cli.harness.device import describe_device
from kevin_cli.records import from_plain, to_plain
from kevin_cli.types import DeviceKind

SCHEMA_VERSION = 1


def isolation_of(found: Found) -> str:
    """The level, and why it is no stronger one."""
    levels = list(dict.fromkeys(report.isolation.value for _, report in found.reports))
    notes = list(dict.fromkeys(report.isolation_note for _, report in found.reports if report.isolation_note))
    return "; ".join([", ".join(levels) or "not known", *notes])


def selftest_object(found: Found, device: DeviceKind) -> dict[str, Any]:
    """The result of `kevin selftest`, for machines."""
    return {
        "schema_version": SCHEMA_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device.value,
        "device_name": describe_device(device),
        "versions": sorted({pair for _, report in found.reports for pair in report.versions}),
        "isolation": isolation_of(found),
        "noise_floor": {name: report.noise_floor for name, report in found.reports},
        **_rows_part(found.rows, found.not_judged),
    }


def _rows_part(rows: Sequence[Row], not_judged: Sequence[str]) -> dict[str, Any]:
    return {
        "counts": [to_plain(item) for item in count(rows)],
        "families": [
            {"kind": kind, "family": family, "num": num, "num_right": right}
            for kind, family, num, right in by_family(rows)
        ],
        "not_judged": list(not_judged),
        "all_right": all(row.is_right for row in rows) and not not_judged,
        "rows": [to_plain(row) for row in rows],
    }


def kept_rows(folder: Path, device: DeviceKind, commit: str) -> tuple[Row, ...]:
    """Rows of an earlier run that need not be made again: the same program, the same commit, and right."""
    corpus = {planted.id: planted.candidate.digest for planted in read_corpus()}
    rows = from_plain(tuple[Row, ...], _before(folder / f"{device.value}.json").get("rows", []))
    return tuple(row for row in rows if row.is_right and row.commit == commit and corpus.get(row.id) == row.digest)


def write_report(told: Mapping[str, Any], rows: Sequence[Row], folder: Path, device: DeviceKind) -> None:
    """`<device>.json` and `<device>.md`. Raises `UsageError` when the folder can't be written to."""
    path = folder / f"{device.value}.json"
    before = _before(path)
    merged, missing = _merged(rows, before, device)
    floors = {**before.get("noise_floor", {}), **told["noise_floor"]}
    whole = {**told, "noise_floor": floors, **_rows_part(merged, missing)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _publish(path, json.dumps(whole, indent=1) + "\n")
        _publish(path.with_suffix(".md"), _markdown(whole))
    except OSError as error:
        raise UsageError(f"can't write to {folder}: {error.strerror}", "name another folder with --out") from error


def _publish(path: Path, text: str) -> None:
    """Whole or not at all: it is written again and again, and may be ended at any time."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def _before(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and found.get("schema_version") == SCHEMA_VERSION:
            return found
    return {}


def _merged(rows: Sequence[Row], before: Mapping[str, Any], device: DeviceKind) -> tuple[list[Row], list[str]]:
    """The rows of the whole corpus as far as they are known, and the names of what is missing."""
    corpus = [planted for planted in read_corpus() if planted.runs_on(device.value)]
    known = {(row.id, row.digest): row for row in (*from_plain(tuple[Row, ...], before.get("rows", [])), *rows)}
    found = [known.get((planted.id, planted.candidate.digest)) for planted in corpus]
    missing = [planted.id for planted, row in zip(corpus, found, strict=True) if row is None]
    return [row for row in found if row is not None], missing


# --- for people ------------------------------------------------------------------------------------


def _markdown(told: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in told["versions"])
    dates = sorted({row["date"][:10] for row in told["rows"]})
    commits = sorted({row["commit"] for row in told["rows"] if row["commit"]})
    head = [
        f"# Self-test on {told['device_name']}",
        "",
        f"Made by `kevin selftest --device {told['device']} --out tests/judge/results`, {' to '.join(dates)}, "
        f"commit {', '.join(commits) or 'not known'}.",
        f"{versions}. Isolation: {told['isolation']}.",
        "The usual judge is allclose at 1e-2 on five public seeds, reference and candidate in one process.",
        "",
        "| programs | kevin is right | usual judge is right |",
        "|---|---|---|",
    ]
    counts = [
        f"| {item['num']} {item['kind']} | {item['num_right']} | {item['num_usual_right']} of {item['num_usual']} |"
        for item in told["counts"]
    ]
    families = [
        f"| {item['kind']} | {item['family']} | {item['num_right']} of {item['num']} |" for item in told["families"]
    ]
    off = [f"- `{row['id']}`: {row['outcome']}; {row['detail']}" for row in told["rows"] if not row["is_right"]]
    missing = [f"- `{name}`: not judged" for name in told["not_judged"]]
    tail = ["", "| kind | family | kevin is right |", "|---|---|---|", *families, "", "## Off", ""]
    return "\n".join([*head, *counts, *tail, *(off + missing or ["Nothing."])]) + "\n"
