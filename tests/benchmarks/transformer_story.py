"""A small transformer's own scripts from profile to packages: what the whole gains, and whether it still learns.

    python tests/benchmarks/transformer_story.py --device cpu        # small sizes, a dress rehearsal
    python tests/benchmarks/transformer_story.py --device cuda       # under six minutes on an H200

The scripts are in `transformer/`, as their owner has them. `kevin profile` says where the time of `serve.py` goes. Of
the owner's classes that hold no other module (so no layer of matrix products, which are cuBLAS's already) those with
the most time above their limit are tried, until `kevin optimize TARGET --run` has made two faster (the embedded
proposer, against eager). Then, without
kevin: `serve.py` is timed by turns with the packages patched in and without, and `train.py` is run three times from
one seed: twice as it is, once patched. Training falls back to the module's own forward wherever a gradient is asked
for, and validation runs the kernels; the three loss curves say whether that is so. The tolerance is 0.5 % of the loss,
or three times what two runs without kernels differ by, if that is more.

Writes JSON and Markdown to `tests/benchmarks/results/`; exit 1 when fewer than two modules became faster, or when the
curves part. Not shown: torch.compile of the whole, other sizes, several GPUs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kevin_cli.harness.device import describe_device  # noqa: E402
from kevin_cli.harness.statistics import compare  # noqa: E402
from kevin_cli.types import DeviceKind  # noqa: E402

SCRIPTS = Path(__file__).resolve().parent / "transformer"
RESULTS = Path(__file__).resolve().parent / "results"
KEVIN = [sys.executable, "-c", "from kevin_cli.app import main; main()"]
NUM_WANTED, MAX_TRIED = 2, 4
TOLERANCE = 0.005


def ran(argv: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    print("$", shlex.join(argv).replace(shlex.join(KEVIN), "kevin").replace(sys.executable, "python"), file=sys.stderr)
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(argv, cwd=SCRIPTS, env=env, stdout=subprocess.PIPE, text=True, check=False)


def printed(argv: Sequence[str], **environment: str) -> dict[str, Any]:
    """The JSON that a command prints. Raises `SystemExit` when it fails."""
    done = ran(argv, **environment)
    if done.returncode != 0:
        raise SystemExit(f"{shlex.join(argv)} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def profiled(serve: str, work: Path) -> list[dict[str, Any]]:
    """The rows of the owner's classes with nothing inside, one for each class, the most to save first."""
    done = ran([*KEVIN, "profile", serve, "--json"], **places(work))
    if done.returncode != 0:
        raise SystemExit("the profile failed")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["modules"]
    rows.sort(key=lambda row: row["limit_us"] - row["inclusive_us"])
    own = [row for row in rows if Path(row["file"]).name == "model.py" and not row["num_inside"]]
    return list({row["class_name"]: row for row in reversed(own)}.values())[::-1]


def optimized(target: str, serve: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What `kevin optimize --json` says of one module."""
    limits = ["--turns", str(options.turns), "--trajectories", "1", "--max-time", str(options.max_time)]
    where = ["--device", options.device, "--baseline", "eager", "--no-git", "--out", str(work / "packages")]
    done = ran([*KEVIN, "optimize", target, "--run", serve, *where, *limits, "--json"], **places(work))
    told = json.loads(done.stdout) if done.stdout.strip() else {"outcome": f"exit code {done.returncode}"}
    return {"target": target, **{key: told.get(key) for key in ("outcome", "speedup", "roofline", "turns", "output")}}


def places(work: Path) -> dict[str, str]:
    return {"KEVIN_RUNS": str(work / "runs"), "KEVIN_CACHE": str(work / "cache")}


def told(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """The whole story as one object."""
    size = ["--device", options.device, "--size", options.size]
    serve = shlex.join(["python", "serve.py", *size])
    best = profiled(serve, work)
    modules: list[dict[str, Any]] = []
    for row in best[:MAX_TRIED]:
        modules.append(optimized(f"model.py:{row['class_name']}", serve, work, options))
        if sum(bool(module["output"]) for module in modules) == NUM_WANTED:
            break
    packages = [module["output"] for module in modules if module["output"]]
    keys = ("place", "class_name", "num_modules", "share", "gain")
    found = {"profile": [{key: row[key] for key in keys} for row in best], "modules": modules}
    return {**found, **(used(packages, size, options) if packages else {"serve": None, "train": None})}


def used(packages: Sequence[str], size: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """`serve.py` and `train.py` with the packages; the first under `strict`, so that a call outside is no win."""
    given = ["--packages", *packages]
    serve = printed([sys.executable, "serve.py", *size, *given], KEVIN_GUARD="strict")
    steps = ["--steps", str(options.steps)]
    train = [printed([sys.executable, "train.py", *size, *steps, *more]) for more in ([], [], given)]
    speed = compare(
        [1e3 * ms for ms in serve["before_ms"]], [1e3 * ms for ms in serve["after_ms"]], 0.0, "as it was", 0
    )
    timing = {"before_ms": speed.baseline_timing.median_us / 1e3, "after_ms": speed.candidate_timing.median_us / 1e3}
    return {
        "serve": {**timing, "median": speed.median, "low": speed.low, "high": speed.high}
        | {key: serve[key] for key in ("patched", "max_difference")},
        "train": curves(*train),
    }


def curves(first: dict[str, Any], second: dict[str, Any], patched: dict[str, Any]) -> dict[str, Any]:
    """How far the loss curves are apart, as a share of the loss, and what is allowed."""
    apart, own = furthest(first, patched), furthest(first, second)
    allowed = max(TOLERANCE, 3 * own)
    return {
        "first_loss": first["train"][0],
        "last_loss": {"as it was": first["train"][-1], "patched": patched["train"][-1]},
        "last_valid": {"as it was": first["valid"][-1], "patched": patched["valid"][-1]},
        "apart": apart,
        "two_runs_as_it_was_apart": own,
        "allowed": allowed,
        "is_same": apart <= allowed,
        "wall_s": {"as it was": [first["wall_s"], second["wall_s"]], "patched": patched["wall_s"]},
        "curves": {"as it was": first["valid"], "patched": patched["valid"]},
    }


def furthest(one: dict[str, Any], other: dict[str, Any]) -> float:
    pairs = [pair for key in ("train", "valid") for pair in zip(one[key], other[key], strict=True)]
    return max(abs(a - b) / a for a, b in pairs)


def markdown(result: dict[str, Any]) -> str:
    lines = [f"# A transformer's own scripts on {result['device']}, {result['date']}", "", f"`{result['command']}`", ""]
    lines += ["| module | places | share of the time | most to gain |", "|---|---|---|---|"]
    for row in result["profile"]:
        lines.append(
            f"| {row['class_name']} `{row['place']}` | {row['num_modules']} | {row['share']:.1%} | {row['gain']:.2f}× |"
        )
    lines += ["", "| target | outcome | against eager (95 %) |", "|---|---|---|"]
    for module in result["modules"]:
        lines.append(f"| `{module['target']}` | {module['outcome']} | {_speed(module)} |")
    serve, train = result["serve"], result["train"]
    if serve is None:
        return "\n".join([*lines, "", "No module became faster, so nothing was patched in.", ""])
    spread = f"{serve['median']:.3f}× [{serve['low']:.3f} … {serve['high']:.3f}]"
    last = ", ".join(f"{name} {loss:.5f}" for name, loss in train["last_valid"].items())
    walls = ", ".join(f"{wall_s:.1f}" for wall_s in train["wall_s"]["as it was"])
    lines += [
        *("", f"- serving, by turns: {spread}; {serve['before_ms']:.2f} ms → {serve['after_ms']:.2f} ms a batch"),
        f"- patched in: {len(serve['patched'])} places; outputs at most {serve['max_difference']:.2e} apart",
        f"- loss curves {'the same' if train['is_same'] else 'APART'}: at most {train['apart']:.2e} of the loss apart, "
        f"two runs as it was {train['two_runs_as_it_was_apart']:.2e}, allowed {train['allowed']:.2e}",
        f"- last validation loss: {last}; the training loss began at {train['first_loss']:.3f}",
        f"- training took {walls} s as it was and {train['wall_s']['patched']:.1f} s patched, one run each",
        "",
    ]
    return "\n".join(lines)


def _speed(module: dict[str, Any]) -> str:
    speed = (module["speedup"] or {}).get("vs_eager")
    return f"{speed['median']:.2f}× [{speed['low']:.2f} … {speed['high']:.2f}]" if speed else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--size", choices=["small", "large"], default=None)
    parser.add_argument("--turns", type=int, default=2, help="of the search, for each module")
    parser.add_argument("--max-time", type=float, default=60, help="seconds of the search, for each module")
    parser.add_argument("--steps", type=int, default=24, help="of training")
    options = parser.parse_args()
    options.size = options.size or ("small" if options.device == "cpu" else "large")
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="kevin-story-", ignore_cleanup_errors=True) as folder:
        result = told(options, Path(folder))
    result |= {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "device": describe_device(DeviceKind(options.device)),
        "command": " ".join(["python", *sys.argv]),
        "wall_s": time.perf_counter() - began_s,
    }
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"transformer-{options.device}-{time.strftime('%Y-%m-%d-%H%M')}"
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(result))
    print(markdown(result) + f"\nwritten to {stem}.json and .md, after {result['wall_s']:.0f} s")
    if result["train"] is None or not result["train"]["is_same"]:
        raise SystemExit(1)
    if sum(bool(module["output"]) for module in result["modules"]) < NUM_WANTED:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
