"""What the compiler gives every CUDA kernel that the embedded proposer writes: registers, spills, shared memory.

    python tests/benchmarks/resources.py [TASK ...] [--turns 10] [--rules kernels]

For each example the first turns of a trajectory are written down as if every turn were correct and none faster,
and all of them compiled (nothing runs, no GPU is needed), at the sizes for GPUs. A line for each kernel that has
something to say: what spills or keeps an array in local memory, and what does not compile. `--all` shows them all.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ["KEVIN_EXAMPLE_SIZE"] = "gpu"

from kevin_cli.harness.build.extension import Extension  # noqa: E402
from kevin_cli.harness.build.recipe import Recipe, nvcc_flags  # noqa: E402
from kevin_cli.harness.build.toolchain import find  # noqa: E402
from kevin_cli.harness.reference.load import load  # noqa: E402
from kevin_cli.policies.embedded.plan import headline  # noqa: E402
from kevin_cli.policies.embedded.policy import EmbeddedPolicy, explain  # noqa: E402
from kevin_cli.policies.embedded.tuning import Tried, next_plan  # noqa: E402
from kevin_cli.types import DeviceKind, Outcome, Rules, Task, Trajectory, Verdict  # noqa: E402
from tests.benchmarks.claims import EXAMPLES, fake_task  # noqa: E402

SOURCE = re.compile(r'SOURCE = r"""\n(.*?)"""', re.DOTALL)
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
ARCHITECTURE = "90a"


@dataclass(frozen=True, slots=True)
class Resources:
    """One instance of one kernel."""

    name: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int

    @property
    def is_notable(self) -> bool:
        return self.stack_bytes > 0 or self.spill_bytes > 0

    def __str__(self) -> str:
        words = f"{self.registers:3d} registers {self.shared_bytes:6d} B shared {self.stack_bytes:5d} B stack"
        return f"{words} {self.spill_bytes:5d} B spilled  {self.name}"


def sources(task: Task, rules: Rules, num_turns: int) -> list[tuple[str, str]]:
    """The parameters and the CUDA text of the first turns."""
    policy = EmbeddedPolicy(rules)
    search = policy._search(Trajectory(task=task, index=0))
    verdict = Verdict(outcome=Outcome.CORRECT, detail="")
    tried: list[Tried] = []
    found = []
    while len(tried) < num_turns and (choice := next_plan(tried, search)) is not None:
        tried.append(Tried(choice.plan, verdict))
        match = SOURCE.search(search.text(choice.plan))
        assert match is not None
        found.append((headline(choice.plan).strip().partition(": ")[2], match[1]))
    return found


def unit(texts: list[str]) -> str:
    """All turns in one file, each in a namespace of its own; headers are parsed once."""
    includes: dict[str, None] = {}
    bodies = []
    for number, text in enumerate(texts):
        lines = text.splitlines()
        includes.update(dict.fromkeys(line for line in lines if line.startswith("#include")))
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        bodies.append(f"namespace turn_{number + 1} {{\n{body}\n}}")
    return "\n".join([*includes, *bodies, ""])


def compiled(text: str, folder: Path) -> str:
    """The compiler's report. Raises `RuntimeError` with its errors."""
    chain = find(sys.executable)
    extension = Extension(name="resources", cpp_sources=(), cuda_sources=(("unit.cu", text),), functions=None)
    recipe = Recipe(extension=extension, toolchain=chain, device=DeviceKind.CUDA, architecture=ARCHITECTURE)
    (folder / "unit.cu").write_text(text)
    command = [str(chain.nvcc), *nvcc_flags(replace(recipe)), "-O3", "-Xptxas", "-v", "-c", "unit.cu", "-o", "unit.o"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stderr


def resources(report: str) -> list[Resources]:
    found = []
    for part in report.split("ptxas info    : Compiling")[1:]:
        entry, stack, used = ENTRY.search("Compiling" + part), STACK.search(part), USED.search(part)
        if entry and stack and used:
            spilled = int(stack[2]) + int(stack[3])
            found.append(Resources(readable(entry[1]), int(used[1]), int(used[2] or 0), int(stack[1]), spilled))
    return found


def readable(mangled: str) -> str:
    return (
        subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=False).stdout.split("(")[0].strip()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--rules", choices=["library", "kernels"], default="library")
    parser.add_argument("--all", action="store_true", help="a line for every kernel")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what is compiled there")
    arguments = parser.parse_args()
    num_bad = 0
    for path in sorted(EXAMPLES.glob("*/reference.py")):
        if not arguments.tasks or path.parent.name in arguments.tasks:
            num_bad += examine(path, arguments)
    print(f"\n{num_bad} kernels spill, keep an array in local memory or do not compile")
    return 0 if not num_bad else 1


def examine(path: Path, arguments: argparse.Namespace) -> int:
    """The lines of one task; how many of its kernels are not as they should be."""
    task = replace(fake_task(load(path, "Model"), path, "cuda"), name=path.parent.name)
    if (reason := explain(task, Rules(arguments.rules))) is not None:
        print(f"{task.name}: {reason}", flush=True)
        return 0
    turns = sources(task, Rules(arguments.rules), arguments.turns)
    print(f"{task.name}: {len(turns)} turns", flush=True)
    text = unit([text for _, text in turns])
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        (arguments.keep / f"{task.name}.cu").write_text(text)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = resources(compiled(text, Path(folder)))
    except RuntimeError as error:
        print(f"  does not compile: {error}", flush=True)
        return 1
    for item in found:
        if item.is_notable or arguments.all:
            turn = int(re.search(r"turn_(\d+)", item.name)[1])  # type: ignore[index]
            print(f"  {item}  [{turns[turn - 1][0]}]", flush=True)
    return sum(item.is_notable for item in found)


if __name__ == "__main__":
    sys.exit(main())
