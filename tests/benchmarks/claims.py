"""What the embedded proposer claims: for every task whether it writes a kernel, and whether that one is right.

    python tests/benchmarks/claims.py [TASK ...]                       # kernels_examples, built and run on the CPU
    python tests/benchmarks/claims.py --device cuda [--time]           # the same on a GPU; compiled only without one
    python tests/benchmarks/claims.py --kernelbench CLONE --levels 1,2 # claims; --build compiles; --run runs (a GPU)

For each task: declined and why, or how many kernels and how many calls that stay with torch; whether it builds;
the largest ratio of its RMS error to what the judge would allow (float64 as the truth, the judge's factors, no
secret seeds); and with `--time` a rough ratio of times in this process. A quick look while working on the
proposer, not a verdict: nothing is contained, nothing is timed in turns. `kevin check` decides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as in the judge: waiting threads leave the cores alone

import torch  # noqa: E402

from kevin_cli import tasks  # noqa: E402
from kevin_cli.errors import KevinError  # noqa: E402
from kevin_cli.harness.build.compile import compile_extension  # noqa: E402
from kevin_cli.harness.build.extension import from_load_inline, torch_cpp_extension  # noqa: E402
from kevin_cli.harness.build.recipe import Recipe  # noqa: E402
from kevin_cli.harness.build.toolchain import Toolchain, find  # noqa: E402
from kevin_cli.harness.reference.faults import TaskFault  # noqa: E402
from kevin_cli.harness.reference.graph import trace  # noqa: E402
from kevin_cli.harness.reference.load import Loaded, load  # noqa: E402
from kevin_cli.harness.reference.lower import describe, parameter_specs  # noqa: E402
from kevin_cli.harness.reference.specs import flatten, move, spec_of  # noqa: E402
from kevin_cli.harness.reference.tolerance import tolerance_for  # noqa: E402
from kevin_cli.harness.worker.extensions import load_thin  # noqa: E402
from kevin_cli.policies.embedded.policy import EmbeddedPolicy, explain  # noqa: E402
from kevin_cli.records import to_plain  # noqa: E402
from kevin_cli.types import Contract, DeviceKind, Limits, Rules, Target, Task, Trajectory, Tree  # noqa: E402

EXAMPLES = ROOT / "kernels_examples"
CACHE = ROOT / "build" / "claims"
LIMITS = Limits(max_tokens=1, temperature=0.0, timeout_s=60.0, seed=0)
SEEDS = (1, 2)
TASK_TIMEOUT_S = 120.0
PROPOSE_LIMIT_S = 10.0
"""What a turn may take to propose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One task's row; `None` where something was not tried."""

    task: str
    claimed: bool = False
    detail: str = ""
    propose_s: float = 0.0
    built: bool | None = None
    ratio: float | None = None
    """Largest RMS error over what is allowed: right up to 1."""
    speed: float | None = None
    source: str = field(default="", repr=False)

    @property
    def is_right(self) -> bool:
        return self.ratio is not None and self.ratio <= 1.0


def uncontained(argv: Sequence[str], **_: Any) -> list[str]:
    return list(argv)


def examine(path: Path, arguments: argparse.Namespace) -> Found:
    """Everything about one task."""
    name = path.parent.name if path.name == "reference.py" else path.stem
    loaded = load(path, "Model")
    is_fake = bool(arguments.kernelbench) and not arguments.run
    task = fake_task(loaded, path, arguments.device) if is_fake else real_task(loaded, path, arguments.device)
    task = replace(task, name=name.lower())
    rules = Rules(arguments.rules)
    start = time.perf_counter()
    reason = explain(task, rules)
    if reason is not None:
        return Found(task=name, detail=reason.removeprefix("The embedded proposer cannot do this module: "))
    trajectory = Trajectory(task=task, index=arguments.trajectory)
    completion = asyncio.run(EmbeddedPolicy(rules).propose(trajectory, LIMITS))
    found = Found(task=name, claimed=True, propose_s=time.perf_counter() - start)
    source = completion.text.split("```python\n")[1].split("```")[0]
    calls = source.count(" kernels.")
    found = replace(found, source=source, detail=f"{calls} kernel{'s' if calls != 1 else ''}")
    if arguments.claims_only or (is_fake and not arguments.build):
        return found
    return built(found, loaded, arguments)


def real_task(loaded: Loaded, path: Path, device: str) -> Task:
    """As the reference process describes it; `device` is what the kernels are written for."""
    target = Target(path=str(path), class_name="Model", python=sys.executable)
    task = tasks.lower(target, describe(loaded, where(device)))
    return replace(task, contract=replace(task.contract, device=DeviceKind(device)))


def where(device: str) -> str:
    """Where modules run: CUDA text is only compiled where there is no GPU."""
    return "cuda" if device == "cuda" and torch.cuda.is_available() else "cpu"


def fake_task(loaded: Loaded, path: Path, device: str) -> Task:
    """The same without any memory: shapes only, for sizes that no CPU should compute."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        module = loaded.construct().eval()
        args, _ = loaded.draw_inputs()
        outputs, results = flatten(module(*args), "the result of forward")
        inputs, tensors = flatten(args, "get_inputs()", "inputs")
        graph, note = trace(module, args)
        description = {
            "source": loaded.module_source,
            "init": to_plain(flatten(tuple(loaded.init_args), "the constructor")[0]),
            "init_keywords": to_plain(Tree(kind="dict")),
            "inputs": to_plain(inputs),
            "outputs": to_plain(outputs),
            "output_specs": [to_plain(spec_of(result)) for result in results],
            "parameters": [to_plain(parameter) for parameter in parameter_specs(module)],
            "contract": to_plain(Contract(device=DeviceKind(device), inputs=tuple(map(spec_of, tensors)))),
            "graph": None if graph is None else to_plain(graph),
            "graph_note": note,
            "training": False,
        }
    return tasks.lower(Target(path=str(path), class_name="Model", python=sys.executable), description)


def built(found: Found, loaded: Loaded, arguments: argparse.Namespace) -> Found:
    """Compile it; on the CPU also run it."""
    try:
        candidate = imported(found.source, DeviceKind(arguments.device))
    except RuntimeError as error:
        return replace(found, built=False, detail=str(error).strip().splitlines()[0][:300])
    if candidate is None or (arguments.kernelbench and not arguments.run):
        return replace(found, built=True)
    return compared(replace(found, built=True), candidate, loaded, where(arguments.device), arguments.time)


def imported(source: str, device: DeviceKind) -> Any:
    """`ModelNew` with our builds in the place of torch's; `None` for CUDA text, which is only compiled here."""
    chain = find(sys.executable)

    def load_inline(*args: Any, **kwargs: Any) -> Any:
        return compiled(chain, device, *args, **kwargs)

    torch_cpp_extension().load_inline = load_inline
    names: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(source, "candidate.py", "exec"), names)
    return names["ModelNew"] if can_run(device) else None


def can_run(device: DeviceKind) -> bool:
    return device is DeviceKind.CPU or torch.cuda.is_available()


def compiled(chain: Toolchain, device: DeviceKind, *args: Any, **kwargs: Any) -> Any:
    extension = from_load_inline(*args, **kwargs)
    architecture = "90a" if device is DeviceKind.CUDA else ""
    recipe = Recipe(extension=extension, toolchain=chain, device=device, architecture=architecture)
    done = asyncio.run(compile_extension(recipe, cache=CACHE, contain=uncontained, timeout_s=240.0))
    if done.library is None:
        raise RuntimeError(done.log or "the compiler did not finish")
    if done.way != "thin":
        raise RuntimeError(f"needs the stock headers: {done.note}")
    return load_thin(done.library, extension.name) if can_run(device) else None


def compared(found: Found, candidate: Any, loaded: Loaded, device: str, with_time: bool) -> Found:
    torch.manual_seed(0)
    module = loaded.construct().to(device).eval()
    own = candidate(*loaded.init_args, **loaded.init_keywords).to(device).eval()
    own.load_state_dict(module.state_dict())
    ratios = []
    with torch.no_grad():
        for seed in SEEDS:
            torch.manual_seed(seed)
            args = move(loaded.draw_inputs()[0], device)
            ratios.append(error_ratio(own(*args), module(*args), exact(loaded, module, args)))
        speed = time_ratio(own, module, args) if with_time else None
    return replace(found, ratio=max(ratios), speed=speed)


def exact(loaded: Loaded, module: torch.nn.Module, args: Sequence[Any]) -> Any:
    """In float64; nothing where the module insists on its types or the memory does not reach."""
    try:
        double = loaded.construct().to(next(iter(tensors_of(args))).device).double().eval()
        double.load_state_dict(module.state_dict())
        return double(*(a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args))
    except RuntimeError:
        return None


def tensors_of(args: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    return flatten(tuple(args), "inputs")[1]


def error_ratio(got: Any, own: Any, truth: Any) -> float:
    """Largest over the outputs; integers and booleans may differ in one of 10,000 places."""
    _, gots = flatten(got, "kernel")
    _, owns = flatten(own, "module")
    _, truths = flatten(own if truth is None else truth, "float64")
    return max(one_ratio(*three) for three in zip(gots, owns, truths, strict=True))


def one_ratio(got: torch.Tensor, own: torch.Tensor, truth: torch.Tensor) -> float:
    if (got.shape, got.dtype, got.stride()) != (own.shape, own.dtype, own.stride()):
        return float("inf")
    if not got.is_floating_point():
        return float((got != own).double().mean()) * 1e4
    tolerance = tolerance_for(got.dtype, half=got.dtype is not torch.float32, floor_factor=1.0)
    floor = tolerance.floor * tolerance.eps * rms(truth.double()) + tolerance.tiny
    return rms(got.double() - truth) / (tolerance.kappa * rms(own.double() - truth) + floor)


def rms(value: torch.Tensor) -> float:
    return float(value.double().pow(2).mean().sqrt())


def time_ratio(own: Callable[..., Any], module: Callable[..., Any], args: Sequence[Any]) -> float:
    """Eager over kernel, the least of some alternating calls."""
    best = {"own": float("inf"), "module": float("inf")}
    is_cuda = any(tensor.is_cuda for tensor in tensors_of(args))
    deadline = time.perf_counter() + 1.0
    while time.perf_counter() < deadline:
        for name, function in (("own", own), ("module", module)):
            best[name] = min(best[name], call_s(function, args, is_cuda))
    return best["module"] / best["own"]


def call_s(function: Callable[..., Any], args: Sequence[Any], is_cuda: bool) -> float:
    if not is_cuda:
        start = time.perf_counter()
        function(*args)
        return time.perf_counter() - start
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    function(*args)
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1e3


# --- all tasks -------------------------------------------------------------------------------------


class Examiner:
    """A process that examines one task after the other; a crash or a hang costs one row and a new process."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.start()

    def start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, there = spawn.Pipe()
        self.process = spawn.Process(target=serve, args=(there, self.arguments), daemon=True)
        self.process.start()
        there.close()

    def examine(self, path: Path) -> Found:
        self.pipe.send(path)
        try:
            if self.pipe.poll(TASK_TIMEOUT_S):
                found: Found = self.pipe.recv()
                return found
            detail = f"not finished in {TASK_TIMEOUT_S:g} s"
        except EOFError:
            self.process.join(10)
            detail = f"crashed ({self.process.exitcode})"
        self.process.kill()
        self.start()
        return Found(task=path.stem, claimed=True, detail=detail)


def serve(pipe: Any, arguments: argparse.Namespace) -> None:
    torch.set_num_threads(2)
    while (path := pipe.recv()) is not None:
        name = path.parent.name if path.name == "reference.py" else path.stem
        try:
            found = examine(path, arguments)
        except (TaskFault, KevinError) as error:
            found = Found(task=name, detail=f"does not load: {error}")
        except Exception:  # noqa: BLE001 - this is a tool: whatever goes wrong is a row
            found = Found(task=name, claimed=True, built=False, detail=traceback.format_exc()[-1500:])
        pipe.send(found)


def paths(arguments: argparse.Namespace) -> Iterator[Path]:
    if arguments.kernelbench:
        for level in arguments.levels.split(","):
            found = sorted((arguments.kernelbench / "KernelBench" / f"level{level}").glob("*.py"), key=number)
            yield from (path for path in found if not arguments.tasks or str(number(path)) in arguments.tasks)
        return
    for path in sorted(EXAMPLES.glob("*/reference.py")):
        if not arguments.tasks or path.parent.name in arguments.tasks:
            yield path


def number(path: Path) -> int:
    return int(path.name.split("_")[0])


def line(found: Found) -> str:
    state = "declined" if not found.claimed else "claimed"
    if found.built is not None:
        state = "built" if found.built else "no build"
    if found.ratio is not None:
        state = "right" if found.is_right else "WRONG"
    ratio = "" if found.ratio is None else f"{found.ratio:6.2f}"
    speed = "" if found.speed is None else f"{found.speed:5.2f}x"
    return f"{found.task[:44]:<44} {state:<9} {ratio:>7} {speed:>7} {found.propose_s:5.2f}s  {found.detail}"


def slowest(claimed: Sequence[Found], count: int = 3) -> str:
    """Which tasks take longest to propose a turn, and whether any takes longer than it may."""
    ordered = sorted(claimed, key=lambda found: -found.propose_s)
    late = sum(found.propose_s > PROPOSE_LIMIT_S for found in claimed)
    names = ", ".join(f"{found.task} {found.propose_s:.2f} s" for found in ordered[:count])
    return f"slowest to propose a turn: {names or '-'}; {late} take more than {PROPOSE_LIMIT_S:g} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="names, or numbers in KernelBench")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rules", choices=["library", "kernels"], default="library")
    parser.add_argument("--trajectory", type=int, default=0, help="whose first turn is looked at")
    parser.add_argument("--claims-only", action="store_true", help="neither build nor run")
    parser.add_argument("--time", action="store_true", help="a rough ratio of times beside each right kernel")
    parser.add_argument("--kernelbench", type=Path, metavar="CLONE")
    parser.add_argument("--levels", default="1,2")
    parser.add_argument("--size", choices=["cpu", "gpu"], default="cpu", help="of the examples' inputs")
    parser.add_argument("--build", action="store_true", help="KernelBench: compile what is claimed")
    parser.add_argument("--run", action="store_true", help="KernelBench: run at its own sizes (needs much memory)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep every candidate there")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if not arguments.kernelbench:
        os.environ["KEVIN_EXAMPLE_SIZE"] = arguments.size
    rows = []
    examiner = Examiner(arguments)
    for path in paths(arguments):
        rows.append(examiner.examine(path))
        print(line(rows[-1]), flush=True)
        if arguments.out and rows[-1].source:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / f"{rows[-1].task}.py").write_text(rows[-1].source)
    examiner.pipe.send(None)
    claimed = [row for row in rows if row.claimed]
    print(
        f"\n{len(claimed)} of {len(rows)} claimed, {sum(row.built is True for row in rows)} built, "
        f"{sum(row.is_right for row in rows)} right, {sum((row.speed or 0) > 1 for row in rows)} faster at a glance"
    )
    print(slowest(claimed))
    if arguments.json:
        kept = [{key: value for key, value in to_plain(row).items() if key != "source"} for row in rows]
        arguments.json.write_text(json.dumps(kept, indent=1) + "\n")
    return 0 if all(row.is_right or row.ratio is None for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
