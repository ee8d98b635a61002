"""What a watched run saw of a module -> the file from which its inputs are drawn.

Several processes of one command are joined. The most frequent kind of calls is the contract; the others are
told, never silently left out.
"""

from __future__ import annotations

import pprint
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).parent / "inject" / "draw.py"
PLACE = "CALL: dict[str, Any] = {}"
INPUTS = "inputs.py"
SURROUNDINGS = ("training", "grad", "autocast", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All calls of one module in one run."""

    kinds: tuple[dict[str, Any], ...]
    """Those in which a kernel may run first, then the most frequent; each with form, specs, looks, kept, num_calls
    and its surroundings."""
    num_calls: int
    init: dict[str, Any]
    """`args` and `keywords` of the constructor, `odd` when they can't be written down, or nothing."""
    state: str
    """The file of its weights, `too large`, or nothing."""
    odd: tuple[str, ...]
    """Types of arguments that can't be handed to another process."""
    faults: tuple[str, ...]


def read_seen(reports: Sequence[dict[str, Any]]) -> Seen:
    kinds: dict[str, dict[str, Any]] = {}
    for kind in (kind for report in reports for kind in report["kinds"] if kind["num_calls"]):
        key = repr([kind["form"], kind["specs"], [kind[name] for name in SURROUNDINGS]])
        kinds[key] = _joined(kinds[key], kind) if key in kinds else kind
    return Seen(
        kinds=tuple(sorted(kinds.values(), key=lambda kind: (not may_use_a_kernel(kind), -int(kind["num_calls"])))),
        num_calls=sum(report["num_calls"] for report in reports),
        init=next((report["init"] for report in reports if report["init"]), {}),
        state=next((report["state"] for report in reports if report["state"] not in ("", "none")), ""),
        odd=tuple(sorted({name for report in reports for name in report["odd"]})),
        faults=tuple(dict.fromkeys(fault for report in reports for fault in report["faults"])),
    )


def may_use_a_kernel(kind: dict[str, Any]) -> bool:
    """Whether such calls can be inside a contract: in evaluation mode, without gradients and autocast."""
    return not (kind["training"] or kind["grad"] or kind["autocast"])


def _joined(kind: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    added = {name: kind[name] + other[name] for name in ("num_calls", "kept")}
    return {**kind, **added}


def write_inputs(folder: Path, seen: Seen) -> Path:
    """A Python file with `get_inputs` for the most frequent kind, and `get_init_inputs` where it is known."""
    kind = seen.kinds[0]
    call = {name: kind[name] for name in ("form", "specs", "looks", "kept")}
    text = TEMPLATE.read_text()
    assert PLACE in text
    text = text.replace(PLACE, f"CALL: dict[str, Any] = {_literal(call)}")
    if "args" in seen.init:
        given = _literal([seen.init["args"], seen.init["keywords"]])
        text += f"\n\ndef get_init_inputs() -> list[Any]:\n    return {given}\n"
    place = folder / INPUTS
    place.write_text(text)
    return place


def kind_words(kind: dict[str, Any]) -> str:
    """`float32 4×8 (train)`: the tensors of a call and what is special around it."""
    tensors = ", ".join(f"{spec['dtype']} {'×'.join(map(str, spec['shape'])) or 'scalar'}" for spec in kind["specs"])
    around = ["training"] if kind["training"] else []
    around += ["gradients"] if kind["grad"] else []
    around += ["autocast"] if kind["autocast"] else []
    return (tensors or "no tensors") + (f" ({', '.join(around)})" if around else "")


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=110, compact=True, sort_dicts=False)
