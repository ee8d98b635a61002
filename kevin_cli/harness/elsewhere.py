"""The user's own module in a worker: what a candidate of exactly eager's speed would seem to be.

Eager against itself inside the reference says how much times stray, not whether a worker is a faster or a
slower place than the reference: it is contained, has other memory and another context on the device. So
the A/A run has a third side: the user's file, handed to a fresh worker as if it were a candidate and
called over the same path. The difference is a part of the noise floor.

No candidate has run in that worker, none will, and it is ended before the first begins: nothing of the
user's file is left where a candidate could see it.

Not promised: that it can be had. A file that imports its neighbours does not load where they cannot be
seen; the noise floor is then eager against itself alone. And it is one worker of many: what differs from
worker to worker is for the three processes of a final claim.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from kevin_cli.errors import InfraError
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.reference_side import Arenas, ReferenceSide
from kevin_cli.harness.verify import load_weights
from kevin_cli.harness.weights import UnmappableWeights, map_weights
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.types import Task

NO_EXTENSIONS = '{"extensions": {}}'


async def has_own_module(
    worker: WorkerSide, task: Task, reference: ReferenceSide, arenas: Arenas, hashes: dict[str, str]
) -> bool:
    """Load the user's module with the user's weights into a worker, and call it once. `False`: it can't be had."""
    if task.form != "class" or task.keyword_names:
        return False
    try:
        await worker.open(task, arenas)
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), task)
            entries = await worker.load(task, Path(folder))
        await load_weights(reference, worker, map_weights(entries, task.parameters, hashes), None)
        await worker.run([0])
    except (CandidateFault, UnmappableWeights, InfraError):
        return False
    return True


def _write(folder: Path, task: Task) -> None:
    source = Path(task.target.path).read_text(encoding="utf-8")
    (folder / "candidate.py").write_text(f"{source}\n\nModelNew = {task.class_name}\n", encoding="utf-8")
    (folder / "manifest.json").write_text(NO_EXTENSIONS, encoding="utf-8")
