"""Short names of runs that a person can say: `rms_norm-1130-swift-otter`.

Unique inside a folder because the folder of that name is created in the same breath.
"""

from __future__ import annotations

import re
import secrets
from datetime import date
from pathlib import Path

_ADJECTIVES = (
    "amber bold brave brisk calm clear clever cosy crisp deft eager early fair fleet fond frank fresh gentle "
    "glad golden grand happy hardy humble keen kind light lively lucid mellow merry mild neat nimble noble "
    "patient plain prompt proud quick quiet rapid ready sharp silent silver sleek smooth snug sober solid "
    "spry steady still sunny swift tidy vivid warm wise witty young"
)
_ANIMALS = (
    "adder badger beaver bison bittern crane curlew deer dingo dove eagle egret falcon ferret finch fox gecko "
    "gull hare hawk hedgehog heron horse ibex ibis jackal jay kestrel kite koala lark lemur linnet lion lynx "
    "magpie marten merlin mole moose newt ocelot osprey otter owl panda pika plover puffin quail rabbit raven "
    "robin seal shrew snipe stoat stork swan swift tapir teal tern thrush tiger toad trout vole weasel wren yak"
)
TRIES = 64


def make_folder(root: Path, task_name: str, today: date) -> Path:
    """Create `root/<name>` under a fresh name and return it. Two processes never get the same."""
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", task_name).strip("_")[:40] or "task"
    root.mkdir(parents=True, exist_ok=True)
    for attempt in range(TRIES):
        folder = root / f"{stem}-{today:%m%d}-{_words(attempt)}"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"no free name for a run in {root}")


def _words(attempt: int) -> str:
    words = f"{secrets.choice(_ADJECTIVES.split())}-{secrets.choice(_ANIMALS.split())}"
    return words if attempt < TRIES // 2 else f"{words}-{secrets.token_hex(3)}"
