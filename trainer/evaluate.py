"""`kevin-train eval`: policies × tasks × seeds -> rows, and the table in the paper's form.

A row is one policy, one seed and one task with all its turns, judged as in training (one process; nothing here is a
final claim). Rows are on disk as soon as they exist, so that an evaluation can be made over several sittings. The
table's numbers are defined in `metrics.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from kevin_cli.harness.pool import Pool
from kevin_cli.types import Outcome, Task, Turn
from trainer.config import Config
from trainer.metrics import Row, TurnResult
from trainer.places import append_line, read_lines
from trainer.rollouts import Group, roll_out, score_of
from trainer.speakers import Speaker

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be evaluated: one policy with one seed on some tasks."""

    policy: str
    seed: int
    tasks: tuple[Task, ...]


def missing(rows: Iterable[Row], policy: str, seed: int, tasks: Sequence[Task]) -> Wish:
    """The tasks that no row has yet."""
    done = {row.digest for row in rows if row.policy == policy and row.seed == seed}
    return Wish(policy=policy, seed=seed, tasks=tuple(task for task in tasks if task.digest not in done))


async def evaluate(
    wish: Wish, speaker: Speaker, pool: Pool, config: Config, root: Path, file: Path, trained: frozenset[str]
) -> list[Row]:
    """Roll out, judge, and write one row a task. `trained` holds the digests of tasks that training saw."""
    seeded = config.model_copy(update={"learn": config.learn.model_copy(update={"seed": wish.seed})})
    groups = await roll_out(
        wish.tasks, config=seeded, batch=0, policy=speaker.policy, engine=speaker.engine, pool=pool, root=root
    )
    rows = [_row(group, wish, seeded, trained) for group in groups]
    for row in rows:
        append_line(file, asdict(row))
    return rows


def read_rows(file: Path) -> list[Row]:
    from kevin_cli.records import from_plain

    return [from_plain(Row, line) for line in read_lines(file)]


def _row(group: Group, wish: Wish, config: Config, trained: frozenset[str]) -> Row:
    return Row(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        policy=wish.policy,
        seed=wish.seed,
        task=group.task.name,
        digest=group.task.digest,
        is_trained=group.task.digest in trained,
        run=group.run,
        trajectories=tuple(
            tuple(_result(turn, group, config) for turn in trajectory.turns) for trajectory in group.trajectories
        ),
    )


def _result(turn: Turn, group: Group, config: Config) -> TurnResult:
    eager, fastest = turn.verdict.against("eager"), turn.verdict.against_fastest()
    return TurnResult(
        outcome=turn.verdict.outcome.value,
        is_judged=turn.verdict.outcome is not Outcome.INFRA,
        reward=score_of(turn.verdict, config.reward, group.report),
        vs_eager=eager.median if eager else None,
        vs_fastest=fastest.median if fastest else None,
        num_tokens=turn.completion.num_completion_tokens or 0,
    )


def shuffled(tasks: Sequence[Task], number: int, seed: int) -> list[Task]:
    """A fixed sample of the tasks, in a fixed order."""
    return random.Random(seed).sample(list(tasks), min(number, len(tasks)))
