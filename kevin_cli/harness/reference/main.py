"""The program that runs the user's module: inputs, the right answers, the comparison, the baselines.

It never sees a candidate's code, only bytes that were copied out of the outputs arena; what is right is
computed after they were copied. It may assert, hang or run out of memory, and is replaced then: nothing
that a verdict needs later lives here only. Every request has one method below.

A mistake in the user's file answers FAULT with a line and a hint; a mistake of ours answers FAULT with
where="internal" and a traceback on stderr.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from kevin_cli.harness.arena import Fixes
from kevin_cli.harness.reference import ceilings
from kevin_cli.harness.reference.baselines import other_tf32
from kevin_cli.harness.reference.block import BlockChecker
from kevin_cli.harness.reference.check import as_checks, first_failure
from kevin_cli.harness.reference.export import write_files
from kevin_cli.harness.reference.factors import depends_on_signs
from kevin_cli.harness.reference.faults import TaskFault, short_error
from kevin_cli.harness.reference.load import load
from kevin_cli.harness.reference.lower import describe
from kevin_cli.harness.reference.nulls import show_nulls
from kevin_cli.harness.reference.numerics import Compared
from kevin_cli.harness.reference.subject import Subject, same_bytes, seed_everything, synchronize
from kevin_cli.harness.reference.task import Contents, Task, is_random
from kevin_cli.harness.steady import Places, keep_freed_memory
from kevin_cli.harness.wire import CLOCKED, REQUEST_SPIN_S, Channel, ChannelClosed, Frame, Kind

Json = dict[str, Any]
IMPORT_SEED = 0
"""A file that makes tensors when it is imported makes the same ones every time, and is the same task."""


class Session:
    """Answers one request after another."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._blocks = BlockChecker(self._compare)
        self._places = Places()

    @property
    def task(self) -> Task:
        if self._task is None:
            raise ValueError("no task is described yet")
        return self._task

    def answer(self, body: Json) -> tuple[Json, tuple[int, ...]]:
        """The answer and the descriptors that travel with it.

        An answer means that the work is done: what was queued on the device (a poison, new weights) would
        otherwise run after the other process has begun to use the memory.
        """
        result = self._perform(body)
        if self._task is not None:
            synchronize(self._task.subject.device)
        return result

    def _perform(self, body: Json) -> tuple[Json, tuple[int, ...]]:
        arguments = {key: value for key, value in body.items() if key != "op"}
        if body["op"] == "open":
            return self.open(**arguments)
        operations: dict[str, Callable[..., Json]] = {
            "describe": self.describe,
            "calibrate": self.calibrate,
            "set_weights": self.set_weights,
            "construct_hashes": self.construct_hashes,
            "draw": self.draw,
            "check": self.check,
            "fill": self.fill,
            "fix": self.fix,
            "mutate": self.mutate,
            "export": self.export,
            "repeat": self.repeat,
            "check_repeats": self.check_repeats,
            "run": self.run,
            "capture": self.capture,
            "replay": self.replay,
            "check_block": self.check_block,
            "mark": self.mark,
            "baselines": self.baselines,
            "other_tf32": self.other_tf32,
            "probe": self.probe,
            "used_device_bytes": self.used_device_bytes,
            "compute_something": self.compute_something,
            "ceilings": lambda sizes, precisions: ceilings.measure(self.task.subject.device, sizes, precisions),
        }
        return operations[body["op"]](**arguments), ()

    def describe(self, target: Json, device: str) -> Json:
        seed_everything(IMPORT_SEED)
        loaded = load(
            target["path"],
            target["class_name"],
            submodule=target["submodule"],
            recipes=target["recipes"],
            inputs_from=target["inputs_from"],
            weights=target["weights"],
        )
        description = describe(loaded, device)
        self._task = Task(Subject(loaded, description, device), description)
        self._blocks.begin()
        return description

    def open(self, max_bytes: int) -> tuple[Json, tuple[int, ...]]:
        slots = self.task.open(max_bytes)
        sides = (slots.inputs, slots.outputs, slots.weights)
        return slots.layout(), tuple(side.arena.fd for side in sides)

    def calibrate(self, seed: int) -> Json:
        """Show null candidates to the comparison; say what this task cannot tell."""
        task = self.task
        task.checker.learn(task.plan.draw(task.plan.how(seed, "user")))
        shown = show_nulls(task.subject, task.checker, task.plan, seed)
        weak = [f"{name} would pass" for name in shown.weak]
        if is_random(task, seed):
            weak.insert(0, "the module's results are random")
        for index in depends_on_signs(task.subject, task.plan.draw(task.plan.how(seed, "user"))):
            weak.append(f"output {index} depends on the signs of eigenvectors or other factors, which are not unique")
        return {
            "weak_check": "; ".join(weak),
            "reference_precision": task.checker.how,
            "null_candidates": [[name, passed] for name, passed in shown.results.items()],
            "strata": task.plan.strata,
        }

    def set_weights(self, seed: int | None) -> Json:
        task = self.task
        if seed is None:
            task.weights.restore()
        else:
            task.weights.randomise(seed, task.plan.draw(task.plan.how(seed, "user")))
        task.weights.write(task.slots)
        self._blocks.begin()
        return {"parameters": task.weights.listed()}

    def construct_hashes(self) -> Json:
        return {"parameters": self.task.weights.constructed()}

    def draw(self, slot: int, seed: int, stratum: str) -> Json:
        task = self.task
        how = task.plan.how(seed, stratum)
        tensors = task.plan.draw(how)
        self._place(slot, Contents(tensors), tensors)
        return {"stratum": how.stratum, "strength": how.strength}

    def fill(self, seed: int, num_slots: int) -> Json:
        for slot in range(num_slots):
            self._place(slot, Contents(None, seed), self.task.plan.fill(seed, slot))
        return {}

    def fix(self, slots: list[int]) -> Json:
        """What is released with the clock: [slot, offset, value in hex] for each slot. The device is let alone."""
        entries = []
        for slot in dict.fromkeys(slots):
            if (single := self.task.change_one(slot)) is not None:
                entries.append([slot, self.task.place_of(slot, single), single.value.hex()])
        return {"fixes": entries}

    def mutate(self, slot: int) -> Json:
        """One element of a slot's inputs becomes another, in the same memory, and the output is poisoned again."""
        single = self.task.change_one(slot)
        if single is not None:
            fixes = Fixes(self.task.slots.inputs.arena, [(slot, self.task.place_of(slot, single), single.value.hex())])
            fixes.apply(slot)
        self.task.slots.poison(slot)
        return {"mutated": single is not None}

    def repeat(self, slot: int, slots: list[int]) -> Json:
        """The inputs of one slot in others too: the same contents at other addresses, under other poisons."""
        tensors = self.task.master(slot)
        for other in slots:
            self._place(other, Contents(tensors), tensors)
        return {}

    def check_repeats(self, slots: list[int]) -> Json:
        """Answers to equal inputs, compared bit by bit with the first; each that differs is compared in full."""
        snapshots = {slot: self.task.slots.snapshot(slot) for slot in slots}
        first = snapshots[slots[0]]
        differing = [slot for slot in slots[1:] if not _same_outputs(first, snapshots[slot])]
        for slot in [slots[0], *differing]:
            found, answer = self._compare(slot, snapshots[slot])
            if not answer["passed"]:
                break
        return answer | {"num_different": len(differing), "checks": as_checks(found)}

    def _place(self, slot: int, contents: Contents, tensors: list[torch.Tensor]) -> None:
        self.task.place(slot, contents)
        self.task.slots.write_inputs(slot, tensors)
        self.task.slots.poison(slot)

    def check(self, slot: int) -> Json:
        given = self.task.slots.snapshot(slot)
        found, answer = self._compare(slot, given)
        return answer | {"checks": as_checks(found)}

    def _compare(self, slot: int, given: list[torch.Tensor]) -> tuple[list[Compared], Json]:
        """The full comparison of one snapshot, and what its slot looks like by then."""
        task, inputs = self.task, self.task.master(slot)
        found = task.checker.compare(given, task.checker.answer(task.seen(slot)))
        kind, detail = self._memory(slot, inputs)
        failure = first_failure(found)
        if not kind and failure is not None:
            kind, detail = self._explain(slot, given, *failure)
        if not kind and not task.slots.still_holds(slot, given):
            kind, detail = "values", "the output changed after the call had ended"
        return found, {"passed": not kind, "kind": kind or "ok", "detail": detail}

    def _memory(self, slot: int, inputs: list[torch.Tensor]) -> tuple[str, str]:
        """What was written to that is not the candidate's."""
        broken = self.task.slots.broken_redzone(slot)
        if broken:
            return "redzone", broken
        if not self.task.slots.inputs_unchanged(slot, inputs):
            return "inputs", "the candidate changed its inputs"
        return "", ""

    def _explain(self, slot: int, given: list[torch.Tensor], index: int, compared: Compared) -> tuple[str, str]:
        name = f"output {index}: " if len(given) > 1 else ""
        if compared.wrong is not None and len(compared.wrong):
            wrong = compared.wrong.to(given[index].device)
            unwritten = self.task.slots.num_unwritten(slot, given[index], wrong)
            if unwritten == len(wrong):
                return "unwritten", f"{name}at least {unwritten} of {given[index].numel()} elements were not written"
        return compared.kind, name + compared.detail

    def export(self, folder: str, seed: int) -> Json:
        """Inputs under a seed and the weights as files of raw bytes: `input-0`, ..., `weight-0`, ..."""
        tensors = self.task.plan.draw(self.task.plan.how(seed, "user"))
        write_files(Path(folder), "input", tensors)
        write_files(Path(folder), "weight", self.task.weights.tensors)
        return {"weights": self.task.weights.specs}

    def mark(self, slots: list[int]) -> Json:
        """The outputs in these slots may be checked later, after other sides have run over the same inputs."""
        self.task.mark(slots)
        return {}

    def check_block(self, slots: list[int]) -> Json:
        """Every slot by the module's own run, some in full."""
        return self._blocks.check(self.task, slots)

    def baselines(self, names: list[str], limit_s: float) -> Json:
        """Make these ready; each that isn't after `limit_s` is missing."""
        missing = self.task.baselines.prepare(names, limit_s)
        return {"available": self.task.baselines.available, "missing": missing}

    def other_tf32(self, products: bool, convolutions: bool) -> Json:
        cuda = self.task.subject.device.type == "cuda"
        return {"suffixes": other_tf32(products=products, convolutions=convolutions) if cuda else []}

    def run(self, baseline: str, slots: list[int], fixes: Sequence[tuple[int, int, str]] = ()) -> Json:
        self._places.settle()
        self.task.baselines.run(baseline, slots, fixes)
        return {}

    def capture(self, baseline: str, blocks: list[list[int]]) -> Json:
        self.task.baselines.capture(baseline, blocks)
        return {}

    def replay(self, baseline: str, block: int) -> Json:
        self.task.baselines.replay(baseline, block)
        return {}

    def probe(self) -> Json:
        device = torch.device("cpu") if self._task is None else self._task.subject.device
        cuda = device.type == "cuda"
        versions = [["torch", torch.__version__], ["python", platform.python_version()]]
        if cuda:
            versions.append(["cuda", str(torch.version.cuda)])
        else:
            waiting = os.environ.get("OMP_WAIT_POLICY", "default")
            versions.append(["threads", f"{torch.get_num_threads()}, waiting: {waiting}; freed memory is kept"])
        return {
            "device_name": ceilings.device_name(device),
            "versions": versions,
            "device_id": _gpu_id(device) if cuda else "",
        }

    def compute_something(self) -> Json:
        return {"answer": (torch.ones(4, device=self.task.subject.device) + 1).sum().item()}

    def used_device_bytes(self) -> Json:
        device = self.task.subject.device
        if device.type != "cuda":
            return {"used_bytes": 0}
        free, total = torch.cuda.mem_get_info(device)
        return {"used_bytes": total - free}


def _gpu_id(device: torch.device) -> str:
    """As NVML knows it: `GPU-…`."""
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


def _same_outputs(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(same_bytes(x.view(-1), y.view(-1)) for x, y in zip(a, b, strict=True))


def _fault(error: BaseException) -> Json:
    if isinstance(error, TaskFault):
        return {"message": error.message, "hint": error.hint, "where": error.where}
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        hint = "use smaller inputs"
        return {
            "message": f"the task does not fit into memory: {short_error(error)}",
            "hint": hint,
            "where": "reference",
        }
    traceback.print_exception(error, file=sys.stderr)
    return {"message": f"fault in the reference program: {short_error(error)}", "hint": "", "where": "internal"}


def _serve(session: Session, channel: Channel, frame: Frame) -> None:
    try:
        answer, fds = session.answer(frame.json())
    except Exception as error:  # noqa: BLE001 - the controller must hear of it; the next request may work
        channel.send(Kind.FAULT, json.dumps(_fault(error)).encode(), sequence=frame.sequence)
        return
    channel.send(Kind.ANSWER, json.dumps(answer).encode(), sequence=frame.sequence, fds=fds)


def main(fd: int, *, spins: bool = False) -> None:
    """Serve requests over the channel `fd` until `quit` or until the controller is gone."""
    channel, session = Channel.from_fd(fd), Session()
    keep_freed_memory()
    (torch.zeros(16) + 1).sum().item()
    channel.send(Kind.READY)
    spin_s = 0.0
    while True:
        try:
            frame = channel.recv(spin_s=spin_s)
            if frame.json()["op"] == "quit":
                return
            spin_s = REQUEST_SPIN_S if spins and frame.json()["op"] in CLOCKED else 0.0
            _serve(session, channel, frame)
        except ChannelClosed:
            return
