"""NVIDIA's compute-sanitizer: where it is, how it is asked, and what its output says.

Four tools, each in a run of its own over a few calls of the candidate (`worker/alone.py`): memcheck (reads and
writes outside of an allocation), racecheck (shared memory that threads use without a barrier between), initcheck
(global memory that is read before anything is written to it), synccheck (barriers that not all threads reach).
Options and the form of the output are those of its manual, CUDA 12 and 13.

It talks to the program that it checks over a local TCP port. Inside bubblewrap the network is the program's own, so
that it can have one; a weaker containment denies it (`confine.py`), and the pass is refused there.

Not promised: that no finding means no fault. The tools see the calls that were made, a candidate can notice that it
is watched, and racecheck knows shared memory only.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kevin_cli.errors import MachineError
from kevin_cli.types import DeviceKind, Isolation

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
NAME = "compute-sanitizer"
RAN = "kevin: the calls have ended"
"""The program under the tool prints this last."""
LAUNCH_TIMEOUT_S = 120
"""How long torch may take until it first uses the device; the tool's own default is too short for an import."""
PADDING_BYTES = 512
"""Between allocations: without a gap a read beyond one falls into the next and looks right."""
OPTIONS = {
    "memcheck": ("--report-api-errors", "no", "--padding", str(PADDING_BYTES)),
    "racecheck": ("--racecheck-report", "analysis"),
    "initcheck": (),
    "synccheck": (),
}
PREFIX = "========="
SUMMARY = re.compile(r"^=+ [A-Z ]*SUMMARY: ", re.MULTILINE)
PLACE = re.compile(r"(?:^\s*at |\baccess at |Device Frame: ?)(.+)")
SHOWN_LINES = 12
HINT = "leave --sanitize away; it needs a GPU, the CUDA toolkit's compute-sanitizer and bubblewrap"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a tool reports: its headline and the lines below it."""

    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """In one line, for people: what, where, by which thread."""
        return ", ".join(line.strip() for line in self.lines[:3])

    @property
    def is_warning(self) -> bool:
        return self.lines[0].startswith(("Warning", "Potential"))

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the device functions that it is about, without namespaces and arguments."""
        places = [place for line in self.lines for place in PLACE.findall(line)]
        return tuple(dict.fromkeys(name for place in places if (name := _function(place))))


@dataclass(frozen=True, slots=True)
class Told:
    """What one run of a tool came to."""

    findings: tuple[Finding, ...]
    is_whole: bool
    """Whether the tool came to its end: it printed its summary."""
    complaint: str
    """What it says of itself, for a run that is not whole: why it could not check."""
    has_run: bool
    """Whether the program made all of its calls."""

    def of(self, source: str) -> tuple[Finding, ...]:
        """Those that are about functions of this source and no mere warnings; a library's are not the candidate's."""
        return tuple(one for one in self.findings if not one.is_warning and _is_in(one, source))


def parse(output: str) -> Told:
    """The output of a run, in which the program's own lines may stand between the tool's."""
    records = list(_records(output))
    findings = [Finding(lines) for lines in records if Finding(lines).functions]
    others = [lines[0] for lines in records if not Finding(lines).functions]
    complaints = [line for line in others if re.match(r"(Error|Internal|Fatal|Failed|Unable|No attachable)", line)]
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")
    return Told(
        findings=tuple(findings),
        is_whole=bool(SUMMARY.search(output)),
        complaint=(complaints or [last.strip("= ")])[0][:300],
        has_run=RAN in output,
    )


def _records(output: str) -> Iterator[tuple[str, ...]]:
    """A headline and the indented lines below it; only the tool's own lines."""
    lines: list[str] = []
    for line in (text[len(PREFIX) :] for text in output.splitlines() if text.startswith(PREFIX)):
        if line.startswith("  ") or line.startswith((" and ", " at ", " by ")):
            lines.append(line)
            continue
        if lines:
            yield tuple(lines)
        lines = [line.strip()] if line.strip() else []
    if lines:
        yield tuple(lines)


def _function(place: str) -> str:
    """`void ns::kernel<(int)4>(float *)+0x70 in file.cu:6` -> `kernel`; empty where no function is named."""
    place = re.sub(r"\(anonymous namespace\)::|<unnamed>::", "", place.strip())
    place = re.sub(r"^0x[0-9a-f]+ in ", "", place)
    place = re.sub(r"^\S+:\d+:", "", place)
    found = re.match(r"[\w:~*& ]*?([A-Za-z_]\w*)\s*(?:[<(+]|$|\sin\s)", place)
    return found[1] if found else ""


def _is_in(finding: Finding, source: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", source) for name in finding.functions)


def shown(tool: str, finding: Finding) -> str:
    """A finding as the log of a verdict has it: headline, place, thread, address."""
    kept = [line for line in finding.lines if "Host Frame" not in line and "host backtrace" not in line]
    return "\n".join([f"{NAME} --tool {tool}:", *kept[:SHOWN_LINES]])


def command(program: Path, tool: str, argv: Sequence[str]) -> list[str]:
    """`argv` under one tool."""
    common = ["--print-limit", "20", "--show-backtrace", "device", "--launch-timeout", str(LAUNCH_TIMEOUT_S)]
    return [str(program), "--tool", tool, *common, *OPTIONS[tool], "--", *argv]


def find(device: DeviceKind, isolation: Isolation, cuda_root: Path | None) -> Path:
    """The program. Raises `MachineError` where the pass can't be made, with the reason."""
    if device is not DeviceKind.CUDA:
        raise MachineError(f"{NAME} checks CUDA kernels, and these run on {device.value}", HINT)
    if isolation is not Isolation.BUBBLEWRAP:
        raise MachineError(f"{NAME} needs a local port, which candidates only have inside bubblewrap", HINT)
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots += [root for root in (cuda_root, Path("/usr/local/cuda")) if root]
    on_path = shutil.which(NAME)
    places = [Path(on_path)] if on_path else []
    places += [root / folder / NAME for root in roots for folder in ("bin", NAME, "extras/compute-sanitizer")]
    found = next((place for place in places if os.access(place, os.X_OK) and place.is_file()), None)
    if found is None:
        raise MachineError(f"there is no {NAME} on PATH nor in the CUDA toolkit", HINT)
    return found
