"""What a compiler's log says: the lines worth showing, and whether the thin headers are to blame.

The fallback rule: torch's own headers are tried only when, in every unit that failed, the *first* error
names a header, macro, function or member that torch has and ours lack. A misspelt torch function is in
neither, so an honest error is an honest error and pays nothing.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

ERROR = re.compile(r"\b(?:fatal )?error\b ?(?:#[\w-]+)?:|undefined reference to|: multiple definition of")
NOISE = re.compile(
    r"^(?:\[\d+/\d+\]|ninja: |FAILED: |collect2: |\d+ errors? detected|\s*$)|warning: undefined reference"
)
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
OUR_NAMESPACE = re.compile(r"kevin_torch::(?:binding::|python::|impl::)?")
MAX_CHARS = 6000
MAX_BLOCK_LINES = 12

MISSING_HEADER = re.compile(
    r"fatal error: (?P<name>[\w./+-]+): No such file|cannot open source file \"(?P<name2>[^\"]+)\""
)
QUOTE = "['\"‘’]"
SPACE = r"(?:torch|at|c10|pybind11|py|kevin_torch|caffe2)"
MISSING_MEMBER = re.compile(
    rf"{QUOTE}(?P<name>\w+){QUOTE} (?:is not a member of|does not name a (?:template )?type in|in namespace) "
    rf"(?:class |namespace )?{QUOTE}{SPACE}\b"
    rf"|namespace {QUOTE}{SPACE}\b\S*{QUOTE} has no member (?:named )?{QUOTE}(?P<name2>\w+)"
    rf"|class {QUOTE}(?:const )?kevin_torch[^'\"‘’]*{QUOTE} has no member (?:named )?{QUOTE}(?P<name3>\w+)"
    rf"|{QUOTE}(?:const )?(?:class |struct )?kevin_torch[^'\"‘’]*{QUOTE} has no member named {QUOTE}(?P<name4>\w+)"
)
UNKNOWN_NAME = re.compile(
    rf"{QUOTE}(?P<name>\w+){QUOTE} (?:was not declared|has not been declared|does not name a)"
    rf"|identifier {QUOTE}(?P<name2>\w+){QUOTE} is undefined"
)
TORCH_MACRO = re.compile(r"^(?:TORCH|AT|C10|CAFFE2|PYBIND11)_\w+$")
NO_OVERLOAD = re.compile(
    r"no matching function for call to|no instance of|no match for|no operator|could not convert|no suitable"
)


def cleaned(log: str) -> str:
    """Without control characters and escape codes; tabs and newlines stay."""
    return CONTROL.sub("", log.replace("\r\n", "\n"))


def error_blocks(log: str) -> list[list[str]]:
    """Each error with the lines that belong to it (source line, caret, notes)."""
    blocks: list[list[str]] = []
    for line in cleaned(log).splitlines():
        if NOISE.search(line) and not (blocks and not line.strip()):
            continue
        if ERROR.search(line):
            blocks.append([line])
        elif blocks and line.strip() and ": warning" not in line and "warning #" not in line:
            blocks[-1].append(line)
    return blocks


def relevant(log: str, hide: Sequence[str] = ()) -> str:
    """The errors of a log for people and prompts: capped, our names as torch's, our paths left out."""
    text = "\n".join("\n".join(block[:MAX_BLOCK_LINES]) for block in error_blocks(log)) or cleaned(log)[-MAX_CHARS:]
    for path in hide:
        text = text.replace(path.rstrip("/") + "/", "")
    text = OUR_NAMESPACE.sub("at::", text)
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS].rsplit("\n", 1)[0] + "\n..."


def missing_from_thin(logs: Iterable[str], includes: Sequence[Path], our_headers: Path) -> str | None:
    """Why torch's own headers should be tried, in one line; `None` when the errors are the candidate's."""
    reasons = [_reason(log, includes, our_headers) for log in logs]
    return reasons[0] if reasons and all(reasons) else None


def _reason(log: str, includes: Sequence[Path], our_headers: Path) -> str | None:
    blocks = error_blocks(log)
    if not blocks:
        return None
    first, text = blocks[0][0], "\n".join(blocks[0])
    if header := _named(MISSING_HEADER, first):
        exists = any((folder / header).exists() for folder in includes)
        return f"the thin headers have no <{header}>" if exists else None
    if member := _named(MISSING_MEMBER, first):
        return f"the thin headers have no {member}" if _torch_has(member, includes) else None
    if (name := _named(UNKNOWN_NAME, first)) and TORCH_MACRO.match(name):
        return f"the thin headers have no {name}" if _torch_has(name, includes) else None
    if macro := next((word for word in _macros_in(blocks[0]) if not _ours_have(word, our_headers)), None):
        return f"the thin headers have no {macro}" if _torch_has(macro, includes) else None
    if first.startswith(str(our_headers)) or (NO_OVERLOAD.search(first) and "kevin_torch" in text):
        return f"the thin headers do not fit: {OUR_NAMESPACE.sub('at::', first.split('error:', 1)[-1]).strip()[:160]}"
    return None


def _named(pattern: re.Pattern[str], line: str) -> str | None:
    found = pattern.search(line)
    return next((value for value in found.groupdict().values() if value), None) if found else None


def _macros_in(block: list[str]) -> list[str]:
    """Words like TORCH_LIBRARY in the error's own source line: an unknown macro is a syntax error."""
    return re.findall(r"\b(?:TORCH|AT|C10|CAFFE2|PYBIND11)_\w+\b", "\n".join(block[:2]))


def _torch_has(word: str, includes: Sequence[Path]) -> bool:
    return _grep(word, [folder for folder in includes if folder.is_dir()])


def _ours_have(word: str, our_headers: Path) -> bool:
    return word in ("TORCH_EXTENSION_NAME", "TORCH_API_INCLUDE_EXTENSION_H") or _grep(word, [our_headers])


def _grep(word: str, folders: Sequence[Path]) -> bool:
    argv = ["grep", "-rqwF", "-e", word, "--", *map(str, folders)]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
