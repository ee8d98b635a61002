"""A run as git commits, in the words of `git fast-import`. Pure: records in, bytes out.

One commit a turn; its parent is the turn before it in the same trajectory, and for a beam's copy the turn that it
was copied after. The branch's own tip joins all trajectories and holds the fastest kernel so far. Everything,
dates included, follows from the record of the run, so that the same record always gives the same commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kevin_cli.refine.journal import Header, Line
from kevin_cli.refine.result import Ending, speed, speed_word
from kevin_cli.refine.untrusted import clean
from kevin_cli.types import Comparison, Turn, Verdict

WHO = "kevin <kevin@localhost>"
MAX_SUBJECT_CHARS = 72
MAX_DETAIL_CHARS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one commit holds beside the files of its first parent."""

    message: str
    at: str
    """ISO 8601 with a time zone."""
    parents: tuple[str, ...]
    """Names of objects; `:1` is the first commit of the same stream."""
    source: str | None = None
    """The kernel; `None` leaves it as the first parent has it."""


def stream(branch: str, path: str, commits: Sequence[Commit]) -> bytes:
    """What `git fast-import --done` reads to make the commits, the last of which becomes the branch.

    It answers with the name of each, one a line.
    """
    parts: list[bytes] = []
    for number, commit in enumerate(commits, 1):
        parts += _commit(branch, path, number, commit)
    parts += [f"get-mark :{number}\n".encode() for number in range(1, len(commits) + 1)]
    return b"".join([*parts, b"done\n"])


def _commit(branch: str, path: str, mark: int, commit: Commit) -> list[bytes]:
    ref, when = f"refs/heads/{branch}", int(datetime.fromisoformat(commit.at).timestamp())
    lines = [f"reset {ref}\n", f"commit {ref}\n", f"mark :{mark}\n"]
    lines += [f"{role} {WHO} {when} +0000\n" for role in ("author", "committer")]
    lines += [f"data {len(commit.message.encode())}\n{commit.message}\n"]
    lines += [f"{'from' if place == 0 else 'merge'} {parent}\n" for place, parent in enumerate(commit.parents)]
    if commit.source is not None:
        data = commit.source.encode("utf-8", "replace")
        lines.append(f"M 100644 inline {_quoted(path)}\ndata {len(data)}\n")
        return ["".join(lines).encode(), data, b"\n\n"]
    return ["".join(lines).encode(), b"\n"]


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


# --- messages --------------------------------------------------------------------------------------


def opening_message(header: Header) -> str:
    settings = header.settings
    shape = f"{settings.search}, {settings.num_trajectories} × {settings.num_turns}"
    body = f"{header.policy} on {_device(header)}; every turn is a commit, every trajectory a line of them."
    return _message(f"kevin run {header.id}: {shape}", body, [("Kevin-Run", header.id), *_policy(header)])


def turn_message(header: Header, line: Line) -> str:
    """`1.3 correct: 1.83 × eager`, what happened, and trailers for programs."""
    turn, where = line.turn, f"{line.trajectory + 1}.{line.turn.index + 1}"
    trailers = [
        ("Kevin-Run", header.id),
        ("Kevin-Trajectory", str(line.trajectory + 1)),
        ("Kevin-Turn", str(turn.index + 1)),
        *_verdict(turn.verdict),
        *_policy(header),
    ]
    return _message(f"{where} {_headline(turn, header)}", turn.verdict.detail, trailers)


def joining_message(header: Header, best: str, *, is_faster: bool) -> str:
    """`best`: where the best correct kernel stands; empty while there is none."""
    found = f"the fastest so far is {best}" if is_faster else "none faster yet" if best else "none yet"
    return _message(f"kevin run {header.id}: {found}", "", [("Kevin-Run", header.id)])


def ending_message(header: Header, ending: Ending) -> str:
    """How the run came out, on the numbers of the second verdict."""
    place = ending.winner
    where = f" with {place.trajectory + 1}.{place.turn + 1}" if place else ""
    subject = f"kevin run {header.id}: {ending.outcome.replace('_', ' ')}{where}"
    trailers = [("Kevin-Run", header.id), ("Kevin-Result", ending.outcome)]
    return _message(
        subject, ending.note, [*trailers, *(_verdict(ending.final) if ending.final else []), *_policy(header)]
    )


def _headline(turn: Turn, header: Header) -> str:
    comparison = speed(turn.verdict, header.settings.baseline)
    if comparison is None:
        return turn.verdict.outcome.value.replace("_", " ")
    name, factor = comparison.baseline, f"{comparison.median:.2f} ×"
    if comparison.is_faster:
        return f"correct: {factor} {name}"
    return (
        f"correct, slower: {factor} {name}"
        if comparison.is_slower
        else f"correct, no difference from {name} ({factor})"
    )


def _verdict(verdict: Verdict) -> list[tuple[str, str]]:
    return [("Kevin-Outcome", verdict.outcome.value), *(("Kevin-Speedup", _speedup(c)) for c in verdict.comparisons)]


def _speedup(comparison: Comparison) -> str:
    interval = f"{comparison.median:.3f} [{comparison.low:.3f}, {comparison.high:.3f}]"
    return f"{interval} against {comparison.baseline}, {speed_word(comparison)}"


def _policy(header: Header) -> list[tuple[str, str]]:
    return [("Kevin-Device", _device(header)), ("Kevin-Policy", header.policy)]


def _device(header: Header) -> str:
    kind = header.task.contract.device.value
    return f"{kind} ({header.report.device_name})" if header.report and header.report.device_name else kind


def _message(subject: str, body: str, trailers: Sequence[tuple[str, str]]) -> str:
    """The body may quote a candidate, so it can form no trailer: every line of it is indented."""
    quoted = "\n".join(f"  {line}".rstrip() for line in clean(body, cap_chars=MAX_DETAIL_CHARS).splitlines())
    known = "\n".join(f"{key}: {' '.join(value.split())}" for key, value in trailers)
    head = " ".join(clean(subject, cap_chars=400).split())[:MAX_SUBJECT_CHARS]
    return "\n\n".join(part for part in (head, quoted, known) if part) + "\n"
