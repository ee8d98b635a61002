"""The planted corpus: kernels whose right verdict is known, by which the judge itself is judged.

Data that travels with the package, so that `kevin selftest` has it wherever kevin is installed; `tests/judge/corpus`
is a link to it. All of it was written for this project.

    tasks/<task>.py                  the references, in the form of any user's module
    honest/<task>/<name>.py          right, in styles that strict checkers reject by mistake
    wrong/<task>.toml                planted bugs: one change to an honest control each, and inputs on which it is wrong
    hostile/<family>/<name>.py       right or wrong, and out for a better verdict than they deserve

The first lines of a program say what is right: `# expect:` the outcomes, `# says:` what the verdict has to say,
`# family:`, and where they apply `# task:` and `# device:`. A bug's fields are those of `Bug`.

Not promised: completeness. A judge that stops all of these can still be wrong about the next one.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kevin_cli.types import Candidate

HERE = Path(__file__).parent
KINDS: tuple[Kind, ...] = ("wrong", "hostile", "honest")
STOPPED = frozenset({"mismatch", "crashed", "tampered", "timed_out"})
"""Outcomes of a planted bug that was found."""
COMMENT = "# "

Kind = Literal["wrong", "hostile", "honest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Inputs on which a planted bug is wrong, as Python text; evaluated only where candidates run."""

    words: str
    setup: str = ""
    """Statements on `module`, which is the reference and the candidate in turn: other weights."""
    calls: str = ""
    """A list of argument lists, one for each call; empty: one call with the task's own inputs."""
    between: str = ""
    """Statements on `module` after the first call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One program of the corpus and what the judge has to say about it."""

    kind: Kind
    task: str
    name: str
    family: str
    device: str
    """`cpu`, `cuda`, or `any`: plain Python that runs on both."""
    source: str
    expect: frozenset[str]
    says: str = ""
    control: str = ""
    """For a bug: the honest control that it changes."""
    witness: Witness | None = None

    @property
    def id(self) -> str:
        return (
            f"{self.kind}/{self.family}/{self.name}"
            if self.kind == "hostile"
            else f"{self.kind}/{self.task}/{self.name}"
        )

    @property
    def candidate(self) -> Candidate:
        return Candidate(source=self.source, digest=hashlib.sha256(self.source.encode()).hexdigest())

    def runs_on(self, device: str) -> bool:
        return self.device in (device, "any")


def task_path(task: str) -> Path:
    return HERE / "tasks" / f"{task}.py"


def read_corpus(kinds: Sequence[Kind] = KINDS) -> list[Planted]:
    """Everything of these kinds, in a fixed order."""
    readers = {"wrong": _read_wrong, "hostile": _read_hostile, "honest": _read_honest}
    return [planted for kind in kinds for planted in readers[kind]()]


def _read_honest() -> Iterator[Planted]:
    for path in sorted((HERE / "honest").glob("*/*.py")):
        yield _read_program(path, "honest", task=path.parent.name)


def _read_hostile() -> Iterator[Planted]:
    for path in sorted((HERE / "hostile").glob("*/*.py")):
        yield _read_program(path, "hostile", family=path.parent.name)


def _read_program(path: Path, kind: Kind, *, task: str = "", family: str = "") -> Planted:
    source = path.read_text(encoding="utf-8")
    head = dict(_head(source))
    return Planted(
        kind=kind,
        task=task or head["task"],
        name=path.stem,
        family=family or head["family"],
        device=head.get("device") or _device_of(source),
        source=source,
        expect=frozenset(head["expect"].replace(" ", "").split(",")),
        says=head.get("says", ""),
    )


def _head(source: str) -> Iterator[tuple[str, str]]:
    """The `# key: value` lines at the top."""
    for line in source.splitlines():
        if not line.startswith(COMMENT) or ":" not in line:
            return
        key, _, value = line.removeprefix(COMMENT).partition(":")
        yield key.strip(), value.strip()


def _device_of(source: str) -> str:
    """A program that compiles nothing runs on any device."""
    if "cuda_sources" in source:
        return "cuda"
    return "cpu" if "load_inline" in source or "cpp_extension" in source else "any"


def _read_wrong() -> Iterator[Planted]:
    for path in sorted((HERE / "wrong").glob("*.toml")):
        for bug in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]:
            yield _planted_bug(path.stem.removesuffix("_cuda"), bug)


def _planted_bug(task: str, bug: dict[str, str]) -> Planted:
    """Raises `ValueError` unless the change applies exactly once and changes something."""
    control = HERE / "honest" / task / f"{bug['control']}.py"
    honest = control.read_text(encoding="utf-8")
    if honest.count(bug["old"]) != 1 or bug["old"] == bug["new"]:
        raise ValueError(f"{task}/{bug['name']} does not apply exactly once to {control.name}")
    source = honest.replace(bug["old"], bug["new"])
    return Planted(
        kind="wrong",
        task=task,
        name=bug["name"],
        family=bug["family"],
        device=_device_of(source),
        source=source,
        expect=STOPPED,
        control=bug["control"],
        witness=Witness(
            words=bug["witness"],
            setup=bug.get("setup", ""),
            calls=bug.get("calls", ""),
            between=bug.get("between", ""),
        ),
    )
